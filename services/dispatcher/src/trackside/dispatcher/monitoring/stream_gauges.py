"""Gauges of streams for monitoring: searches, what is parked, what is not trusted, what aggregates count."""

from dataclasses import dataclass
from typing import cast

import structlog

from trackside.aggregates.search.messages import SearchStatus
from trackside.aggregates.search.state import Search, search_of
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.refusals import Problem
from trackside.domain.folding.aggregate import Aggregates
from trackside.domain.folding.signals import GaugeReading
from trackside.domain.folding.streams import Streams
from trackside.domain.streams.stream import Stream, told
from trackside.eventlog.reactor.stuck_decisions import GIVEN_UP_AFTER, StuckDecisions
from trackside.telemetry.health import Health
from trackside.telemetry.metrics import counter, gauge
from trackside.telemetry.names import GaugeName

MAX_STREAMS = 1_000
"""Of how many streams a process has gauges; those that come later have none."""
_Series = tuple[str, tuple[str, ...]]


class StreamGauges:
    """The gauges of streams that are not over."""

    def __init__(self, aggregates: Aggregates) -> None:
        self._aggregates = aggregates
        self._shown: dict[str, dict[_Series, GaugeReading]] = {}

    def update(self, stream: Stream) -> None:
        """Sets the gauges of a stream to its state; removes those that it has no more."""
        aggregate = self._aggregates.of(stream)
        found = () if aggregate is None else aggregate.gauges(stream.root)
        readings = {(each.name, each.labels): each for each in found}
        before = self._shown.pop(stream.stream_id, {})
        if readings and (before or len(self._shown) < MAX_STREAMS):
            kept = {series: each for series, each in before.items() if each.lasting}
            self._shown[stream.stream_id] = shown = kept | readings
        else:
            shown = {}
        for series, each in shown.items():
            if before.get(series) != each:
                gauge(cast("GaugeName", each.name)).labels(*each.labels).set(each.value)
        for name, labels in before.keys() - shown.keys():
            gauge(cast("GaugeName", name)).remove(*labels)


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


MOST_NAMED = 5


class ParkedStreams:
    """Which streams are parked, or given up, with why; the service stays ready: all other streams go on."""

    def __init__(self, streams: Streams, health: Health, stuck: StuckDecisions) -> None:
        self._health = health
        self._stuck = stuck
        self._told: dict[str, str] = {}
        for stream in streams.by_id.values():
            if stream.waits:
                self._told[stream.stream_id] = told(stream)
        if stuck.ended_for is not None:
            counter("trackside.dispatcher.stuck.decisions").inc()
        self._tell()

    def __contains__(self, stream_id: str) -> bool:
        return stream_id in self._told

    def update(self, stream: Stream) -> None:
        """Takes in that a stream may have been parked or given up, or may go on."""
        before = self._told.pop(stream.stream_id, "")
        if stream.waits:
            self._told[stream.stream_id] = told(stream)
        if before != self._told.get(stream.stream_id, ""):
            self._tell()

    def give_up(self, stream_id: str) -> None:
        """Takes in that a stream was given up: deciding about it ended the service."""
        if stream_id not in self._told:
            self._told[stream_id] = (
                f"needs a newer release: the dispatcher ended {GIVEN_UP_AFTER} times while it decided"
            )
            self._tell()

    def _tell(self) -> None:
        named = [f"{name} {why}" for name, why in list(self._told.items())[:MOST_NAMED]]
        self._health.set_parked(len(self._told), named)
        gauge("trackside.dispatcher.parked.streams").set(len(self._told))


def given_up_problem(stuck: StuckDecisions, stream_id: str) -> Problem:
    """Returns why a command is refused without being decided: that ended the service."""
    message = (
        f"the dispatcher ended itself {stuck.by_stream[stream_id].times} times because deciding this command "
        "took too long, so it is not decided again: publish a smaller one"
    )
    return Problem(code="too_costly", path="$", message=message)


log = structlog.get_logger("trackside.dispatcher")

MAX_WARNED = 100
"""How many writers and reasons are warned of: the source of a forged event may be any text."""


class DistrustedEvents:
    """Counts by reason; warns once of each source and reason."""

    def __init__(self) -> None:
        self._warned: set[tuple[str, str]] = set()

    def note(self, record: Record) -> None:
        """Notes a record that was just folded without effect."""
        counter("trackside.dispatcher.distrusted.events").labels(record.distrust).inc()
        writer = (record.envelope.source[:200], record.distrust)
        if writer in self._warned or len(self._warned) >= MAX_WARNED:
            return
        self._warned.add(writer)
        log.warning(
            "events have no effect: their signature does not count",
            source=writer[0],
            reason=record.distrust,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
