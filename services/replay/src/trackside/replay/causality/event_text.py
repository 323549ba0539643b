"""The content of an event as one short line."""

from typing import Any

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.memory import shown
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.children import ChildEnded, ChildRequested
from trackside.contracts.streams.commands import CommandReceived, CommandRefused
from trackside.contracts.streams.labels import StreamAnnotated
from trackside.contracts.streams.watches import TasksWatched
from trackside.contracts.tasks.artifacts import ArtifactSaved, ArtifactsForgotten, TaskResumed
from trackside.contracts.tasks.instructions import InstructionAcknowledged, InstructionGiven, TaskReady
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnded,
    MetricReported,
    TaskAssigned,
    TaskContinued,
    TaskInterrupted,
    TaskRefused,
    TaskStatusChanged,
    TaskStopRequested,
    TaskSubmitted,
    TaskUnschedulable,
)
from trackside.domain.display.short_text import named_values, plain
from trackside.domain.display.text import counted, number

_KNOWN = frozenset(
    {"task_id", "child_id", "incarnation", "command_id", "placement", "attempt", "seen", "trial"}
)


def brief(event: Event) -> str:
    """Returns the content of an event, without the ids of its subject."""
    aggregate = AGGREGATES.by_event.get(type(event))
    own = "" if aggregate is None else aggregate.causes.text_of(event)
    if own:
        return own
    match event:
        case CommandReceived():
            return event.command_type
        case ChildRequested():
            return event.kind
        case ChildEnded():
            return event.status
        case CommandRefused():
            return f"{event.code}: {event.message}"
        case TaskSubmitted():
            return event.task_type
        case TaskContinued(part=part):
            return f"{part.kind} {part.number}: {named_values(event.parameters)}"
        case TaskAssigned():
            behind = ", behind another task" if event.behind else ""
            return f"to {event.worker_id}/{','.join(event.device_ids)}{behind}{_placement(event)}"
        case AttemptAdopted():
            return f"by {event.incarnation} of {event.worker_id}, after {', '.join(event.earlier)}"
        case TaskStatusChanged():
            return event.status.name
        case MetricReported():
            value = event.non_finite if event.value is None else number(event.value)
            return f"{'FINAL ' if event.kind == 'FINAL' else ''}step {event.step}: {value}"
        case _:
            return _ending(event)


def _ending(event: Event) -> str:
    match event:
        case AttemptEnded(end=end, error=error):
            return end.value if error is None else f"{end.value}: {error.type}: {error.message}"
        case TaskInterrupted():
            return f"out of {event.resource} memory, interrupt {event.interrupt}"
        case TaskRefused():
            return f"{event.code}: {event.message}{_placement(event)}"
        case TaskStopRequested():
            return f"by {event.reason}"
        case TaskUnschedulable():
            return event.message
        case _:
            return _of_artifacts(event)


def _of_artifacts(event: Event) -> str:
    match event:
        case ArtifactSaved(step=step):
            at = "" if step is None else f", step {step}"
            return f"{event.name}@{event.version}, {event.kind}, {shown(event.size_bytes)}{at}"
        case TaskResumed(checkpoint=checkpoint):
            return f"at step {event.step}, from {checkpoint.source or checkpoint.uri}"
        case ArtifactsForgotten(artifacts=artifacts):
            why = f", {event.reason}" if event.reason else ""
            return f"{counted(len(artifacts), 'digest')}{why}"
        case InstructionGiven():
            return f"number {event.number}: {named_values(event.body)}"
        case InstructionAcknowledged():
            done = "done" if event.ok else "not done"
            return f"number {event.number} {done}: {named_values(event.detail)}"
        case TaskReady():
            return named_values(event.detail)
        case TasksWatched(watch=watch):
            return named_values(watch.model_dump())
        case StreamAnnotated():
            return _labels(event)
        case _:
            fields = event.model_dump(mode="json").items()
            return " ".join(f"{name}={plain(value)}" for name, value in fields if _is_told(name, value))


def _placement(event: TaskAssigned | TaskRefused) -> str:
    return f", placement {event.placement}" if event.placement > 1 else ""


def _labels(event: StreamAnnotated) -> str:
    """Returns what changes: `+baseline -draft, archived, note: for the paper`."""
    tags = " ".join([*(f"+{tag}" for tag in event.added_tags), *(f"-{tag}" for tag in event.removed_tags)])
    archived = {None: "", True: "archived", False: "no longer archived"}[event.archived]
    note = "" if event.note is None else f"note: {plain(event.note)}" if event.note else "no note"
    return ", ".join(part for part in (tags, archived, note) if part)


def _is_told(name: str, value: Any) -> bool:
    return name not in _KNOWN and value not in (None, "", -1) and not isinstance(value, dict | list)
