"""Time limits of searches and of their trials: when one is reached, and what is said then. Pure.

The log judges: an event that its clock finds too early has no effect, and is said again a little later.
"""

from collections.abc import Iterator
from typing import Any

from trackside.aggregates.search.messages import SearchTimeLimitReached
from trackside.aggregates.search.state import Search
from trackside.contracts.tasks.tasks import TaskStopRequested
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState


def next_due_ms(stream: Stream[Search]) -> int | None:
    """Returns when the next limit of a search or of one of its trials is reached; None without one."""
    search = stream.root
    if search.closed:
        return None
    moments = [due_ms for _, due_ms in _trials(stream)]
    if search.due_ms is not None:
        moments.append(search.due_ms)
    return min(moments, default=None)


def reached(stream: Stream[Search], now_ms: int) -> Iterator[Proposal]:
    """Returns what is to be said of the limits that are reached."""
    search = stream.root
    if search.closed:
        return
    due_ms = search.due_ms
    if due_ms is not None and due_ms <= now_ms:
        reached = SearchTimeLimitReached(due_ms=due_ms)
        yield Proposal("limit search", [reached], search.started_at, stream.traceparent)
    for task, due_ms in _trials(stream):
        if due_ms <= now_ms:
            stop: Any = {"task_id": task.task_id, "reason": "max_trial_duration", "due_ms": due_ms}
            yield Proposal("limit trial", [TaskStopRequested(**stop)], task.changed_at, task.traceparent)


def _trials(stream: Stream[Search]) -> Iterator[tuple[Task, int]]:
    search = stream.root
    if search.spec.max_trial_duration_s is None:
        return
    limit_ms = int(search.spec.max_trial_duration_s * 1000)
    for number in sorted(search.active):
        task = stream.tasks.get(search.task_of(number))
        if task is None or task.state is not TaskState.ACTIVE or task.stop_reason:
            continue
        if task.attempt.stopping is None:
            trial = search.trials[number]
            began_ms = trial.suggested_ms if trial.within else 0  # its task may have run before it
            yield task, max(task.attempt.accepted_ms, began_ms) + limit_ms
