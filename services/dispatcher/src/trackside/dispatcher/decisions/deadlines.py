"""Time limits of searches and of their trials: when one is reached, and what is said then. Pure.

The log judges: an event that its clock finds too early has no effect, and is said again a little later.
"""

from collections.abc import Callable, Iterator
from typing import Any

from trackside.aggregates.search.state import search_of
from trackside.contracts.searches import SearchTimeLimitReached
from trackside.contracts.tasks import TaskStopRequested
from trackside.domain.proposal import Proposal
from trackside.domain.stream import Stream
from trackside.domain.task import Task, TaskState

AGAIN_MS = 250
"""After how long a limit is said again that the log found too early: its clock is behind ours."""
BUSY_MS = 20


def next_due_ms(stream: Stream) -> int | None:
    """Gives when the next limit of a search or of one of its trials is reached; None without one."""
    search = search_of(stream)
    if search is None or search.closed:
        return None
    moments = [due_ms for _, due_ms in _trials(stream)]
    if search.due_ms is not None:
        moments.append(search.due_ms)
    return min(moments, default=None)


def reached(stream: Stream, now_ms: int) -> Iterator[Proposal]:
    """Gives what is to be said of the limits that are reached."""
    search = search_of(stream)
    if search is None or search.closed:
        return
    due_ms = search.due_ms
    if due_ms is not None and due_ms <= now_ms:
        reached = SearchTimeLimitReached(due_ms=due_ms)
        yield Proposal("limit search", [reached], search.started_at, stream.traceparent)
    for task, due_ms in _trials(stream):
        if due_ms <= now_ms:
            stop: Any = {"task_id": task.task_id, "reason": "max_trial_duration", "due_ms": due_ms}
            yield Proposal("limit trial", [TaskStopRequested(**stop)], task.changed_at, task.traceparent)


def _trials(stream: Stream) -> Iterator[tuple[Task, int]]:
    search = search_of(stream)
    if search is None or search.spec.max_trial_duration_s is None:
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


class Deadlines:
    """The next limit of each stream, and when to look at it: when it is due, or a little after a try."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[int, int]] = {}

    def set(self, stream_id: str, due_ms: int | None) -> None:
        """Notes when the next limit of a stream is reached; the same one again changes nothing."""
        if due_ms is None:
            self._of.pop(stream_id, None)
        elif self._of.get(stream_id, (None, 0))[0] != due_ms:
            self._of[stream_id] = (due_ms, due_ms)

    def pop_due(self, now_ms: int, busy: Callable[[str], bool]) -> list[str]:
        """Gives the streams to look at now; each again a little later, unless its limit changes."""
        found = []
        for stream_id, (due_ms, look_ms) in self._of.items():
            if look_ms > now_ms:
                continue
            is_busy = busy(stream_id)
            self._of[stream_id] = (due_ms, now_ms + (BUSY_MS if is_busy else AGAIN_MS))
            if not is_busy:
                found.append(stream_id)
        return found

    def next_ms(self) -> int | None:
        """Gives the next moment to look at any stream."""
        return min((look_ms for _, look_ms in self._of.values()), default=None)
