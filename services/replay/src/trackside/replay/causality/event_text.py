"""The content of an event as one short line."""

from collections.abc import Mapping
from typing import Any

from trackside.aggregates.batch.messages import BatchStarted, GroupEnded
from trackside.aggregates.search.messages import SearchStarted, TrialSuggested
from trackside.contracts.commands import CommandReceived, CommandRefused
from trackside.contracts.message import Event
from trackside.contracts.tasks import (
    AttemptEnded,
    MetricReported,
    TaskAssigned,
    TaskInterrupted,
    TaskRefused,
    TaskStatusChanged,
    TaskStopRequested,
    TaskSubmitted,
    TaskUnschedulable,
)

_KNOWN = frozenset({"task_id", "incarnation", "command_id", "placement", "attempt", "seen", "trial"})
_LONGEST_PARAMETERS = 5


def brief(event: Event) -> str:
    """Returns the content of an event, without the ids of its subject."""
    match event:
        case CommandReceived():
            return event.command_type
        case CommandRefused():
            return f"{event.code}: {event.message}"
        case SearchStarted(search=spec):
            return (
                f"{spec.max_trials} trials, {spec.concurrency} at once, {spec.tuner.name}, seed {event.seed}"
            )
        case BatchStarted(batch=spec):
            return f"{len(spec.groups)} groups, {sum(len(group.tasks) for group in spec.groups)} tasks"
        case TrialSuggested():
            return f"trial {event.trial}: {parameters(event.parameters)}"
        case GroupEnded():
            return f"group {event.group + 1}: {parameters(event.ends)}"
        case TaskSubmitted():
            return event.task_type
        case TaskAssigned():
            behind = ", behind another task" if event.behind else ""
            return f"to {event.worker_id}/{','.join(event.device_ids)}{behind}{_placement(event)}"
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
            plain = event.model_dump(mode="json")
            return " ".join(
                f"{name}={_plain(value)}" for name, value in plain.items() if _is_told(name, value)
            )


def _placement(event: TaskAssigned | TaskRefused) -> str:
    return f", placement {event.placement}" if event.placement > 1 else ""


def _is_told(name: str, value: Any) -> bool:
    return name not in _KNOWN and value not in (None, "", -1) and not isinstance(value, dict | list)


def _plain(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """Formats a number with at most 5 significant digits."""
    return f"{value:.5g}"


def parameters(values: Mapping[str, Any]) -> str:
    """Formats the first few of some named values."""
    shown = [f"{name}={_plain(value)}" for name, value in list(values.items())[:_LONGEST_PARAMETERS]]
    more = len(values) - len(shown)
    return " ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
