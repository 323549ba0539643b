"""What schedules wait for in the tasks of a stream, as folded from its log: each match is an event of it.

Tasks are forgotten soon after they end, and values of metrics sooner. So the stream itself has in its log
what is waited for (`TasksWatched`), and its fold notes what matches, whoever looks at it when.
"""

from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Json, Record
from trackside.contracts.streams.watches import TasksWatched, TaskWatch
from trackside.contracts.tasks.artifacts import CHECKPOINT, ArtifactSaved
from trackside.contracts.tasks.tasks import MetricReported, TaskContinued
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task import Task, TaskState

MAX_WATCHES = 100
"""How many different things of its tasks may be waited for in one stream."""
KEPT_MATCHES = 100
"""How many matches of each are kept: the newest ones."""


@dataclass(slots=True)
class Match:
    """An event that something waits for."""

    offset: int
    """Offset of the event."""
    values: Json
    """What is known of it, by name."""


@dataclass(slots=True)
class Watched:
    """Something that is waited for, and what has matched since."""

    watch: TaskWatch
    """What is waited for."""
    since: int
    """Offset of TasksWatched."""
    matches: list[Match] = field(default_factory=list)
    """The newest matches, oldest first."""
    inside: dict[str, None] = field(default_factory=dict)
    """The tasks that have not ended whose last value is within the bounds, as keys."""

    @property
    def last(self) -> int:
        """The offset of the newest match, or else of its begin."""
        return self.matches[-1].offset if self.matches else self.since


def begin(
    watches: dict[str, Watched], tasks: dict[str, Task], event: TasksWatched, record: Record
) -> Outcome:
    """Folds that something is waited for; values that are within the bounds already are no match."""
    key = event.watch.key
    if key in watches:
        return Outcome.DUPLICATE
    if len(watches) >= MAX_WATCHES:
        return Outcome.OVERTAKEN
    added = watches[key] = Watched(event.watch, record.offset)
    if event.watch.event == "metric":
        for task in tasks.values():
            value = _last_value(task, event.watch.of)
            if task.state is not TaskState.ENDED and value is not None and _is_within(event.watch, value):
                added.inside[task.task_id] = None
    return Outcome.APPLIED


def note(watches: dict[str, Watched], task: Task, record: Record) -> None:
    """Takes in an event that was applied to a task."""
    for watched in watches.values():
        if watched.watch.task in ("", task.task_id):
            values = _match(watched, task, record)
            if values is not None:
                watched.matches.append(Match(record.offset, {"task": task.task_id} | values))
                del watched.matches[:-KEPT_MATCHES]


def _match(watched: Watched, task: Task, record: Record) -> Json | None:
    """Returns what is known of an event that matches; None for another one."""
    watch, event = watched.watch, record.message
    match watch.event:
        case "task_ended":
            if task.end is None or watch.of not in ("", task.end):
                return None
            return {"status": task.end.value, "attempt": task.attempt.number}
        case "artifact":
            return _artifact(watch, event) if isinstance(event, ArtifactSaved) else None
        case "metric":
            if task.state is TaskState.ENDED or isinstance(event, TaskContinued):
                watched.inside.pop(task.task_id, None)  # its next trial has other values
                return None
            return _crossing(watched, event) if isinstance(event, MetricReported) else None


def _artifact(watch: TaskWatch, event: ArtifactSaved) -> Json | None:
    wanted = event.kind == watch.kind if watch.kind else event.kind != CHECKPOINT
    if not wanted or watch.of not in ("", event.name):
        return None
    return event.model_dump(include={"name", "version", "kind", "uri", "sha256", "size_bytes"})


def _crossing(watched: Watched, event: MetricReported) -> Json | None:
    watch = watched.watch
    value = event.others.get(watch.of) if watch.of else event.value
    if not isinstance(value, int | float):  # it has none, or one that is not finite
        return None
    if not _is_within(watch, value):
        watched.inside.pop(event.task_id, None)
        return None
    if event.task_id in watched.inside:
        return None
    watched.inside[event.task_id] = None
    return {"metric": watch.of, "value": value, "step": event.step}


def _last_value(task: Task, metric: str) -> float | None:
    if metric:
        value = task.others.get(metric)
        return value if isinstance(value, int | float) else None
    if task.has_final:
        return task.final
    return next((value for _, value in reversed(task.reports) if value is not None), None)


def _is_within(watch: TaskWatch, value: float) -> bool:
    return (watch.above is None or value > watch.above) and (watch.below is None or value < watch.below)
