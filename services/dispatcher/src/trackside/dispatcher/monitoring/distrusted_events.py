"""Counts events that have no effect because their signature does not count, and warns of who writes them."""

import structlog

from trackside.contracts.envelope.message import Record
from trackside.telemetry.metrics import counter

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
