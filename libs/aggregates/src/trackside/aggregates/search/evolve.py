"""What each event does to a search: the guards that every reader folds with."""

from trackside.aggregates.search.advice.assessor_feed import row_of_end
from trackside.aggregates.search.advice.slots import learn, settle
from trackside.aggregates.search.messages import (
    TRIAL,
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchStarted,
    SearchStatus,
    SearchStopRequested,
    SearchTimeLimitReached,
    TrialEnded,
    TrialStatus,
    TrialSuggested,
)
from trackside.aggregates.search.state import GOES_ON, OVER, Search, Trial
from trackside.aggregates.search.trials import promotion
from trackside.aggregates.search.trials.objectives import directions_of, front_with
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.parts import Part, number_of
from trackside.domain.outcome import Outcome
from trackside.domain.tasks import task_reuse
from trackside.domain.tasks.task import Task, TaskState
from trackside.domain.tasks.task_artifacts import newest_model
from trackside.domain.tasks.trained_models import trained_model


def begin(search_id: str, event: SearchStarted, record: Record) -> Search:
    """Makes the search of a SearchStarted event, with its first slots open."""
    search = Search(search_id, event.search, event.seed, record.append_time_ms)
    search.opened = [record.offset] * event.search.concurrency
    search.started_at = search.changed_at = record.offset
    return search


def evolve(search: Search, tasks: dict[str, Task], record: Record) -> Outcome:
    """Folds one event into the search; changes it only if it returns APPLIED."""
    outcome = _evolve(search, tasks, record)
    if outcome is Outcome.APPLIED:
        search.changed_at = record.offset
    return outcome


def _evolve(search: Search, tasks: dict[str, Task], record: Record) -> Outcome:
    event = record.message
    match event:
        case SearchStarted():
            return Outcome.DUPLICATE
        case TrialSuggested():
            return _suggested(search, tasks, event, record)
        case TrialEnded():
            return _trial_ended(search, tasks, event, record)
        case SearchExhausted():
            return _exhausted(search, event)
        case SearchTimeLimitReached():
            return _time_limit_reached(search, event, record)
        case SearchStopRequested():
            return _stopping(search, event.reason or "user", "", record.offset)
        case SearchFailed():
            return _stopping(search, "search_failed", f"{event.code}: {event.message}", record.offset)
        case SearchEnded():
            return _search_ended(search, event, record)
        case _:
            return Outcome.OVERTAKEN


def _suggested(search: Search, tasks: dict[str, Task], event: TrialSuggested, record: Record) -> Outcome:
    if event.trial < len(search.trials):
        return Outcome.DUPLICATE
    is_added = event.source == "customized"
    turn = search.next_trial if search.next_added is None else search.next_added
    if is_added != bool(search.added) or event.trial != turn or event.seen < search.moved_at:
        return Outcome.OVERTAKEN
    host = tasks.get(event.within)
    if event.within and (host is None or not task_reuse.is_idle(host)):
        return Outcome.OVERTAKEN
    if not promotion.is_continuable(search, event):
        return Outcome.OVERTAKEN
    trial = Trial(event.trial, event.parameters, record.offset, record.append_time_ms)
    trial.step_limit = event.step_limit
    if event.from_checkpoint is not None:
        trial.from_trial = event.from_checkpoint.trial
        trial.from_checkpoint = event.from_checkpoint.checkpoint
    trial.source, trial.space_version, trial.within = event.source, event.space_version, event.within
    if host is not None:
        search.idle.remove(host.task_id)
        search.asking.discard(host.task_id)
        task_reuse.assign_part(host, Part(kind=TRIAL, number=event.trial), event.parameters)
        host.changed_at = record.offset
    trial.outside = event.outside
    trial.hidden = is_added and not search.added.pop(0).tell_tuner
    search.trials.append(trial)
    search.active.add(event.trial)
    search.failures = 0
    settle(search)
    return Outcome.APPLIED


def _trial_ended(search: Search, tasks: dict[str, Task], event: TrialEnded, record: Record) -> Outcome:
    if not 0 <= event.trial < len(search.trials):
        return Outcome.OVERTAKEN
    trial = search.trials[event.trial]
    if trial.ended_at >= 0:
        return Outcome.DUPLICATE
    task = tasks.get(search.task_of(event.trial))
    if (
        task is None
        or number_of(task.part, TRIAL) != event.trial
        or not (task.state is TaskState.ENDED or task.asks)
    ):
        return Outcome.OVERTAKEN
    trial.ended_at = record.offset
    trial.ended_ms = record.append_time_ms
    trial.status = event.status
    trial.value = event.value
    trial.non_finite = event.non_finite or ""
    trial.values = event.values
    trial.missing = event.missing
    trial.others = task.others
    trial.reports = task.reports
    trial.checkpoint = promotion.last_checkpoint(search, task)
    if task.state is not TaskState.ENDED:
        task_reuse.release(task)
        search.idle.append(task.task_id)
    else:
        search.settled.append(task.task_id)
    search.active.discard(event.trial)
    search.unended.discard(event.trial)
    search.ends.append(event.trial)
    if search.debt:
        search.debt -= 1
    else:
        search.opened.append(record.offset)
    search.assessor_feed += row_of_end(search, event)
    learn(search, record.offset)
    _compare(search, trial)
    _keep_model(search, trial, task)
    settle(search)
    return Outcome.APPLIED


def _compare(search: Search, trial: Trial) -> None:
    if trial.outside:
        return
    several = len(search.spec.objectives) > 1
    if several and trial.status is TrialStatus.SUCCEEDED and len(trial.values) == len(search.spec.objectives):
        directions = directions_of(search.spec)
        search.front = front_with(directions, search.front, search.trials, trial.number)
    elif not several and _is_better(search, trial):
        search.best = trial.number


def _keep_model(search: Search, trial: Trial, task: Task) -> None:
    """Keeps the model of a trial that is one of the best: its task is forgotten soon."""
    best = set(search.front) if search.best is None else {search.best}
    if trial.number not in best:
        return
    for number in search.models.keys() - best:
        del search.models[number]
    saved = newest_model(task)
    if saved is not None and saved[1].saved_at > trial.suggested_at:  # not by the trial before in this task
        search.models[trial.number] = trained_model(saved[1])


def _is_better(search: Search, trial: Trial) -> bool:
    if trial.value is None or trial.status is not TrialStatus.SUCCEEDED:
        return False
    best = None if search.best is None else search.trials[search.best].value
    if best is None:
        return True
    return trial.value > best if search.spec.direction == "maximize" else trial.value < best


def _exhausted(search: Search, event: SearchExhausted) -> Outcome:
    now = event.trials == len(search.trials) and event.seen >= search.moved_at
    if search.status is not SearchStatus.RUNNING or not now:
        return Outcome.OVERTAKEN
    search.exhausted = True
    settle(search)
    return Outcome.APPLIED


def _time_limit_reached(search: Search, event: SearchTimeLimitReached, record: Record) -> Outcome:
    if event.due_ms != search.due_ms or record.append_time_ms < event.due_ms:
        return Outcome.OVERTAKEN
    search.time_is_up = True
    settle(search)
    return Outcome.APPLIED


def _stopping(search: Search, reason: str, failure: str, offset: int) -> Outcome:
    if search.status is SearchStatus.STOPPING:
        return Outcome.DUPLICATE
    search.status = SearchStatus.STOPPING
    search.stop_reason = reason
    search.failure = failure
    search.control_at = offset
    return Outcome.APPLIED


def _search_ended(search: Search, event: SearchEnded, record: Record) -> Outcome:
    waits = search.status in GOES_ON or search.next_added is not None or search.next_trial is not None
    if waits or search.idle or search.active or event.status not in OVER:
        return Outcome.OVERTAKEN
    search.status = event.status
    search.ended_ms = record.append_time_ms
    return Outcome.APPLIED


def note_task(search: Search, task: Task, record: Record) -> None:
    """Keeps which tasks have ended and which ask for another trial; a task that has ended is idle no more."""
    trial = number_of(task.part, TRIAL)
    if task.state is TaskState.ENDED and trial in search.active:
        search.unended.add(trial)
    if not task.requested:
        return
    (search.asking.add if task.asks else search.asking.discard)(task.task_id)
    if task.idle and task.state is TaskState.ENDED and task.task_id in search.idle:
        search.idle.remove(task.task_id)
        search.settled.append(task.task_id)
        search.changed_at = record.offset
