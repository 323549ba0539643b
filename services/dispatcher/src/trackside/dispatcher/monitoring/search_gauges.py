"""Gauges over all running searches: their number, what they wait for, since when one has not moved."""

from dataclasses import dataclass

from trackside.aggregates.search.messages import SearchStatus
from trackside.aggregates.search.state import Search, search_of
from trackside.domain.streams.stream import Stream
from trackside.telemetry.metrics import gauge

SET_EVERY_MS = 1_000


@dataclass(frozen=True, slots=True)
class _Running:
    waiting_slots: int
    moved_ms: int


class SearchGauges:
    """What each running search has; only those that have changed are read again."""

    def __init__(self) -> None:
        self._moved_ms: dict[str, int] = {}
        self._running: dict[str, _Running] = {}
        self._due_ms = 0

    def note(self, stream_id: str, append_time_ms: int) -> None:
        """Notes when the newest event of a stream was appended that had an effect."""
        self._moved_ms[stream_id] = append_time_ms

    def update(self, stream: Stream, now_ms: int) -> None:
        """Reads a stream that has changed, or that the state began with."""
        search = search_of(stream)
        if search is None or search.over or search.paused:
            self._running.pop(stream.stream_id, None)
            if stream.closed or search is None:
                self._moved_ms.pop(stream.stream_id, None)
            return
        moved_ms = self._moved_ms.setdefault(stream.stream_id, now_ms)
        self._running[stream.stream_id] = _Running(waiting_slots(search), moved_ms)

    def set(self, now_ms: int) -> None:
        """Sets the gauges, once a second."""
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + SET_EVERY_MS
        running = self._running.values()
        gauge("trackside.dispatcher.running.searches").set(len(running))
        slots = sum(each.waiting_slots for each in running)
        gauge("trackside.dispatcher.waiting_slots.trials").set(slots)
        oldest_ms = min((each.moved_ms for each in running), default=now_ms)
        gauge("trackside.dispatcher.oldest_progress.seconds").set(max(0, now_ms - oldest_ms) / 1000)


def waiting_slots(search: Search) -> int:
    """Returns how many slots wait for the tuner; none while it waits itself for the end of a trial."""
    return search.open_slots if search.status is SearchStatus.RUNNING and not search.deferred else 0
