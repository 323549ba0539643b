"""Access to the log apart from consuming: its bounds, gaps in its offsets, and dead letters."""

from collections.abc import Mapping
from functools import partial

import structlog

from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import RecordDeadLettered
from trackside.eventlog.errors import OffsetGoneError
from trackside.eventlog.keys.dead_letters import write_dead_letter
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log
from trackside.eventlog.retry import retry_until_reachable

log = structlog.get_logger("trackside.summary_indexer")

READ_S = 5.0
"""How long reading the record after a gap may take."""


class MetricsLog:
    """The topics of metrics and of dead letters."""

    def __init__(self, log: Log, topics: Topics, writer: RecordWriter) -> None:
        self._log, self._topics, self._writer = log, topics, writer

    async def check_positions(self, positions: Mapping[int, int]) -> None:
        """Raises OffsetGoneError if a position is before the first offset or after the end of the log."""
        name = self._topics.metrics.name
        begins, ends = await retry_until_reachable(
            partial(self._bounds, name), lambda reason: log.debug("no log yet", reason=reason)
        )
        for partition, position in positions.items():
            first, end = begins.get(partition, 0), ends.get(partition, 0)
            if not first <= position <= end:
                raise OffsetGoneError(
                    f"{name}-{partition} reaches from {first} to {end}, the rows in Postgres to {position}: "
                    "they were made from another log; rebuild the read models"
                )

    async def _bounds(self, name: str) -> tuple[dict[int, int], dict[int, int]]:
        return await self._log.beginnings(name), await self._log.ends(name)

    async def is_empty_range(self, partition: int, start: int, end: int) -> bool:
        """Returns whether the log has no record in [start, end), as after an aborted transaction."""
        name = self._topics.metrics.name
        reader = self._log.reader({(name, partition): start})
        try:
            entries = await reader.read(READ_S, max_records=1)
        finally:
            await reader.close()
        return bool(entries) and entries[0].offset >= end

    async def write_dead_letter(self, letter: RecordDeadLettered) -> None:
        """Appends a dead letter; retries until the log has it."""
        await write_dead_letter(self._log, self._topics.dead_letters, self._writer, letter)
