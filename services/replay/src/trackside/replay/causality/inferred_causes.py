"""The causes of the events of a log that names none: what a decision rested on, as the state shows it."""

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Message
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskHeld,
    TaskReleased,
    TaskStopRequested,
    TaskSubmitted,
)
from trackside.domain.streams.command import Publication
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task
from trackside.domain.tasks.task_events import TaskEvent

_REQUESTED = frozenset({AttemptEnd.CANCELLED, AttemptEnd.PREEMPTED, AttemptEnd.TIMED_OUT_RUN})


def inferred_cause(stream: Stream, event: Message) -> int:
    """Returns the offset of the event that one rests on, from the state before it: -1 if there is none."""
    if isinstance(event, CommandReceived):
        return -1
    if isinstance(event, CommandAccepted | CommandRefused):
        publications = _publications(stream, event.command_id)
        return next((each.offset for each in publications if each.source == event.source), -1)
    if isinstance(event, TaskEvent) and not isinstance(event, TaskSubmitted):
        task = stream.tasks.get(event.task_id)
        return -1 if task is None else _of_task(stream, task, event)
    command_id = getattr(event, "command_id", "")
    if command_id:
        return max((each.answered_at for each in _publications(stream, command_id)), default=-1)
    aggregate = AGGREGATES.of(stream)
    return -1 if aggregate is None else aggregate.causes.cause_of(stream, event)


def _publications(stream: Stream, command_id: str) -> list[Publication]:
    command = stream.commands.get(command_id)
    return [] if command is None else command.publications


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
    asked = [each.answered_at for one in stream.commands.values() for each in one.publications]
    aggregate = AGGREGATES.of(stream)
    if aggregate is not None:
        asked.append(aggregate.causes.last_control(stream.root))
    return max(asked, default=-1)
