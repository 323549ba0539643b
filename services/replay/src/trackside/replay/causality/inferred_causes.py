"""The causes of the events of a log that names none: what a decision rested on, as the state shows it."""

from trackside.aggregates.batch.state import batch_of
from trackside.aggregates.search.advice_messages import SuggestionDeferred, SuggestionFailed
from trackside.aggregates.search.messages import (
    SearchExhausted,
    SearchFailed,
    SearchTimeLimitReached,
    TrialEnded,
    TrialSuggested,
)
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.message import Message
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskHeld,
    TaskReleased,
    TaskStopRequested,
    TaskSubmitted,
)
from trackside.domain.command import Publication
from trackside.domain.stream import Stream
from trackside.domain.task import Task
from trackside.domain.task_events import TaskEvent

_REQUESTED = frozenset({AttemptEnd.CANCELLED, AttemptEnd.PREEMPTED, AttemptEnd.TIMED_OUT_RUN})


def inferred_cause(stream: Stream, event: Message) -> int:
    """Returns the offset of the event that one rests on, from the state before it: -1 if there is none."""
    if isinstance(event, CommandReceived):
        return -1
    if isinstance(event, CommandAccepted | CommandRefused):
        publications = _publications(stream, event.command_id)
        return next((each.offset for each in publications if each.source == event.source), -1)
    if isinstance(event, TaskSubmitted):
        return _of_submission(stream, event)
    if isinstance(event, TaskEvent):
        task = stream.tasks.get(event.task_id)
        return -1 if task is None else _of_task(stream, task, event)
    command_id = getattr(event, "command_id", "")
    if command_id:
        return max((each.answered_at for each in _publications(stream, command_id)), default=-1)
    search, batch = search_of(stream), batch_of(stream)
    if search is not None:
        return _of_search(stream, search, event)
    return -1 if batch is None else batch.changed_at


def _publications(stream: Stream, command_id: str) -> list[Publication]:
    command = stream.commands.get(command_id)
    return [] if command is None else command.publications


def _of_search(stream: Stream, search: Search, event: Message) -> int:
    match event:
        case TrialSuggested(trial=number) | SuggestionFailed(trial=number) | SuggestionDeferred(trial=number):
            return _slot(search, number)
        case SearchExhausted(trials=number):
            return _slot(search, number)
        case SearchFailed() if search.failed_at >= 0:
            return search.failed_at
        case SearchTimeLimitReached():
            return search.started_at
        case TrialEnded(trial=number):
            task = stream.tasks.get(search.task_of(number))
            return -1 if task is None else task.changed_at
        case _:
            return search.changed_at


def _slot(search: Search, number: int) -> int:
    """Returns what opened the slot of a trial; the last one if there is none for it."""
    if 0 <= number < len(search.opened):
        return search.opened[number]
    return search.opened[-1] if search.opened else search.started_at


def _of_submission(stream: Stream, event: TaskSubmitted) -> int:
    search, batch = search_of(stream), batch_of(stream)
    if search is not None and event.trial is not None and event.trial < len(search.trials):
        return search.trials[event.trial].suggested_at
    return -1 if batch is None else batch.changed_at


def _of_task(stream: Stream, task: Task, event: TaskEvent) -> int:
    match event:
        case TaskStopRequested(reason="assessor") if task.reported_at >= 0:
            return task.reported_at
        case TaskStopRequested(reason="assessor" | "max_trial_duration"):
            return task.changed_at
        case TaskStopRequested() | TaskHeld() | TaskReleased():
            return _last_control(stream)
        case AttemptEnded(end=end) if end in _REQUESTED and (task.stop_reason or task.attempt.stopping):
            return task.asked_at
        case _:
            return task.changed_at


def _last_control(stream: Stream) -> int:
    """Returns what last asked tasks to stop, to wait or to go on: a command, or the state of the root."""
    answers = [each.answered_at for one in stream.commands.values() for each in one.publications]
    search, batch = search_of(stream), batch_of(stream)
    of_search = -1 if search is None else search.control_at
    return max(of_search, -1 if batch is None else batch.stopped_at, *answers)
