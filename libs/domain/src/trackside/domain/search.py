"""A search: its trials, which slots are open, and when it is over. Drawn in ARCHITECTURE.md."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import PlainSerializer

from trackside.contracts.ids import trial_task_id
from trackside.contracts.message import Record
from trackside.contracts.searches import (
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchPaused,
    SearchResumed,
    SearchSpaceUpdated,
    SearchSpec,
    SearchStarted,
    SearchStatus,
    SearchStopRequested,
    SearchTimeLimitReached,
    SearchUpdated,
    Suggester,
    TrialAdded,
    TrialEnded,
    TrialsImported,
    TrialsRequested,
    TrialStatus,
    TrialSuggested,
)
from trackside.contracts.tasks import Figure
from trackside.domain import hosting
from trackside.domain.objectives import directions_of, front_with
from trackside.domain.outcome import Outcome
from trackside.domain.task import Task, TaskState

Change = (
    TrialsRequested
    | SearchSpaceUpdated
    | TrialsImported
    | TrialAdded
    | SearchUpdated
    | SearchPaused
    | SearchResumed
)
"""What commands change while a search goes on; each event says which change of the search it is."""
SearchEvent = (
    SearchStarted
    | TrialSuggested
    | TrialEnded
    | SearchExhausted
    | Change
    | SearchTimeLimitReached
    | SearchStopRequested
    | SearchFailed
    | SearchEnded
)
OVER = frozenset({SearchStatus.DONE, SearchStatus.STOPPED, SearchStatus.ERROR})
GOES_ON = frozenset({SearchStatus.RUNNING, SearchStatus.PAUSED})  # a search doesn't end in these


@dataclass(slots=True)
class Trial:
    """One trial; `ended_at` is the offset of its TrialEnded, -1 before.

    `hidden` says that its result is not for the tuner, `space_version` of which space its parameters are.
    `values` are those of the objectives, where there are several; `others` all numbers beside the value.
    `within` is the task that went on with it, if it has none of its own.
    """

    number: int
    parameters: dict[str, Any]
    suggested_at: int
    suggested_ms: int
    ended_at: int = -1
    ended_ms: int = 0
    status: TrialStatus | None = None
    value: float | None = None
    non_finite: str = ""
    values: list[Figure | None] = field(default_factory=list)
    others: dict[str, Figure] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    reports: list[tuple[int, float | None]] = field(default_factory=list)
    source: Suggester = "algorithm"
    space_version: int = 1
    hidden: bool = False
    within: str = ""

    def task_of(self, search_id: str) -> str:
        """Gives the id of the task that carries it out."""
        return self.within or trial_task_id(search_id, self.number)


@dataclass(slots=True)
class Added:
    """A user's parameters that wait for the next slot, and the offset at which the search had them."""

    parameters: dict[str, Any]
    tell_tuner: bool
    at: int = -1


@dataclass(slots=True)
class Imported:
    """A result from elsewhere, and the offset at which the search had it."""

    parameters: dict[str, Any]
    value: float
    at: int


@dataclass(slots=True)
class AssessorFailures:
    """How often an assessor has failed, how often in a row, up to which row of its past, and how at last."""

    rows: int = -1
    in_a_row: int = 0
    count: int = 0
    last: tuple[str, str] = ("", "")


@dataclass(slots=True)
class Search:
    """A search as the log has it.

    `opened[n]` is the offset of the event that opened the slot of trial n: the start of the search for
    the first ones, the end of an earlier trial or a change of the search for the rest. Trial n is asked upon
    the state at that offset, so a suggestion is the same whoever asks, and whenever. `ends` are trial numbers
    in the order in which the trials ended, `active` those that have not.

    `debt` counts the slots that there are beyond the concurrency: so many ends open none. `changes` counts
    what commands have changed; `moved_at` is the offset of the last change that moved the open slots to
    itself, so that what was asked before it doesn't count. `paused` says what became of the running trials.

    `best` is a trial, unless there are several objectives: then `front` are those that no other beats.

    `failures` counts how often the tuner has failed for the next trial, `last_failure` is the last one's code
    and message. While `deferred` the tuner waits for an end; `learnt_at` is the offset of the last thing that
    it could learn from. `assessor_failures` counts its assessor's failures. `idle` are the tasks that
    run though their trial is over, in the order in which these ended.

    Offsets that decisions name as their cause, -1 for none: `started_at` of its start, `changed_at` of the
    last event that changed it, but for failures of its tuner and assessor: `failed_at` is of the last of
    these. `control_at` is of the last event that asked running trials to stop, to wait or to go on.
    """

    search_id: str
    spec: SearchSpec
    seed: int
    started_ms: int
    status: SearchStatus = SearchStatus.RUNNING
    trials: list[Trial] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    active: Annotated[set[int], PlainSerializer(sorted, return_type=list[int])] = field(default_factory=set)
    stop_reason: str = ""
    failure: str = ""
    ended_ms: int = 0
    best: int | None = None
    front: list[int] = field(default_factory=list)
    debt: int = 0
    changes: int = 0
    moved_at: int = -1
    space_version: int = 1
    added: list[Added] = field(default_factory=list)
    imported: list[Imported] = field(default_factory=list)
    exhausted: bool = False
    time_is_up: bool = False
    paused: Literal["", "finish", "return"] = ""
    paused_at_ms: int = 0
    paused_ms: int = 0
    failures: int = 0
    last_failure: tuple[str, str] = ("", "")
    deferred: bool = False
    learnt_at: int = -1
    assessor_failures: AssessorFailures = field(default_factory=AssessorFailures)
    idle: list[str] = field(default_factory=list)
    started_at: int = -1
    changed_at: int = -1
    control_at: int = -1
    failed_at: int = -1

    def task_of(self, number: int) -> str:
        """Gives the id of the task that carries a trial out, also of one that isn't suggested yet."""
        known = number < len(self.trials)
        return self.trials[number].task_of(self.search_id) if known else trial_task_id(self.search_id, number)

    @property
    def open_slots(self) -> int:
        """How many trials may begin now."""
        return max(0, min(len(self.opened), self.spec.max_trials) - len(self.trials))

    @property
    def next_trial(self) -> int | None:
        """The number of the trial that the tuner is to suggest now, if a slot is open for it."""
        waits = self.status is SearchStatus.RUNNING and not self.added and not self.deferred
        return self._open_trial if waits else None

    @property
    def next_added(self) -> int | None:
        """The number of the trial that a user's parameters are for, if some wait and a slot is open."""
        waits = self.added and self.status in (SearchStatus.RUNNING, SearchStatus.TUNER_NO_MORE_TRIAL)
        return self._open_trial if waits else None

    @property
    def _open_trial(self) -> int | None:
        number = len(self.trials)
        return number if number < min(len(self.opened), self.spec.max_trials) else None

    @property
    def due_ms(self) -> int | None:
        """When the search has run for as long as it may; None without a limit, or while it makes no odds."""
        limit_s = self.spec.max_duration_s
        if limit_s is None or self.status is not SearchStatus.RUNNING:
            return None
        return self.started_ms + self.paused_ms + int(limit_s * 1000)

    @property
    def goal_is_reached(self) -> bool:
        """Says whether the best value is as good as was asked for."""
        best = None if self.best is None else self.trials[self.best].value
        if best is None or self.spec.goal is None:
            return False
        return best >= self.spec.goal if self.spec.direction == "maximize" else best <= self.spec.goal


def started(search_id: str, event: SearchStarted, record: Record) -> Search:
    """Makes the search of a SearchStarted event, with its first slots open."""
    search = Search(search_id, event.search, event.seed, record.append_time_ms)
    search.opened = [record.offset] * event.search.concurrency
    search.started_at = search.changed_at = record.offset
    return search


def evolve(search: Search, tasks: dict[str, Task], record: Record) -> Outcome:
    """Folds one event into the search; changes it only if it returns APPLIED."""
    if search.status in OVER:
        return Outcome.OVERTAKEN
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
    turn = search.next_added if is_added else search.next_trial
    if event.trial != turn or event.seen < search.moved_at:
        return Outcome.OVERTAKEN
    host = tasks.get(event.within)
    if event.within and (host is None or not hosting.is_free(host)):
        return Outcome.OVERTAKEN
    trial = Trial(event.trial, event.parameters, record.offset, record.append_time_ms)
    trial.source, trial.space_version, trial.within = event.source, event.space_version, event.within
    if host is not None:
        search.idle.remove(host.task_id)
        hosting.go_on(host, event.trial, event.parameters)
        host.changed_at = record.offset
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
    if task is None or task.trial != event.trial or not (task.state is TaskState.ENDED or task.asks):
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
    if task.state is not TaskState.ENDED:
        hosting.rest(task)
        search.idle.append(task.task_id)
    search.active.discard(event.trial)
    search.ends.append(event.trial)
    if search.debt:
        search.debt -= 1
    else:
        search.opened.append(record.offset)
    learn(search, record.offset)
    _compare(search, trial)
    settle(search)
    return Outcome.APPLIED


def _compare(search: Search, trial: Trial) -> None:
    several = len(search.spec.objectives) > 1
    if several and trial.status is TrialStatus.SUCCEEDED and len(trial.values) == len(search.spec.objectives):
        directions = directions_of(search.spec)
        search.front = front_with(directions, search.front, search.trials, trial.number)
    elif not several and _is_better(search, trial):
        search.best = trial.number


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


def learn(search: Search, offset: int) -> None:
    """Notes that there is more to learn from, for which a tuner may have waited."""
    search.learnt_at = offset
    if search.deferred:
        move(search, offset)


def move(search: Search, offset: int) -> None:
    """Moves the open slots to an offset, to be asked anew; those of trials that were suggested stay."""
    count = len(search.trials)
    search.opened[count:] = [offset] * (len(search.opened) - count)
    search.moved_at = offset
    search.failures = 0
    search.deferred = False


def settle(search: Search) -> None:
    """Gives a search that isn't being stopped the state that follows from what else is known of it."""
    if search.status is SearchStatus.STOPPING:
        return
    full = len(search.trials) >= search.spec.max_trials
    if search.paused:
        search.status = SearchStatus.PAUSED
    elif full or search.time_is_up or search.goal_is_reached:
        search.status = SearchStatus.NO_MORE_TRIAL
    elif search.exhausted:
        search.status = SearchStatus.TUNER_NO_MORE_TRIAL
    else:
        search.status = SearchStatus.RUNNING


def _stopping(search: Search, reason: str, failure: str, offset: int) -> Outcome:
    if search.status is SearchStatus.STOPPING:
        return Outcome.DUPLICATE
    search.status = SearchStatus.STOPPING
    search.stop_reason = reason
    search.failure = failure
    search.control_at = offset
    return Outcome.APPLIED


def _search_ended(search: Search, event: SearchEnded, record: Record) -> Outcome:
    waits = search.status in GOES_ON or search.next_added is not None or search.idle
    if waits or search.active or event.status not in OVER:
        return Outcome.OVERTAKEN
    search.status = event.status
    search.ended_ms = record.append_time_ms
    return Outcome.APPLIED
