"""Writes points and positions in one transaction; comparing the position keeps out repeated batches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.envelope.topics import Topic
from trackside.eventlog.log_id import NamedLog
from trackside.projections.database.notifications import notify
from trackside.projections.database.positions import ensure_positions, move_position, read_positions
from trackside.projections.database.postgres import Connection, Database
from trackside.projections.tables.metric_tables import SERIES
from trackside.projections.tables.metrics import MetricRows, Reported, rows_of
from trackside.projections.tables.owners import SUMMARY_INDEXER
from trackside.projections.writing.metric_writes import purge_points, write_metrics
from trackside.projections.writing.migrate import prepare_schema

PURGED_POINTS = 200_000
"""How many points one transaction removes: all of a large job may take longer than a statement may."""
KNOWN_SERIES = 100_000
"""How many written series are remembered, so as not to write them again; then all are forgotten."""

STREAM_OF_SERIES = SERIES.columns.index("stream_id")

WaitReporter = Callable[[str | None], None]
"""Takes the reason why a write waits, or None when it continues."""


@dataclass(frozen=True, slots=True)
class PositionAdvance:
    """How far a batch advances a partition: from the position before it to the one after its last record."""

    start: int
    end: int


class PointsStore:
    """Writes points and positions of one topic; retries until Postgres has them."""

    def __init__(self, database: Database, topic: Topic, report_wait: WaitReporter, log: NamedLog) -> None:
        self._database, self._topic, self._report_wait = database, topic, report_wait
        self._log = log
        self._known: set[int] = set()

    async def positions(self) -> dict[int, int]:
        """Returns the next offset to index of every partition, 0 at first; creates missing tables.

        Raises AnotherLogError if the rows are not of this log.
        """
        places = [(self._topic.name, partition) for partition in range(self._topic.partitions)]

        async def prepared(connection: Connection) -> dict[int, int]:
            await prepare_schema(connection, self._database.schema, self._log)
            await ensure_positions(connection, SUMMARY_INDEXER, places)
            return await self._positions(connection)

        return await self._database.commit_with_retries(prepared, self._report_wait)

    async def write(self, messages: Sequence[Reported], advances: Mapping[int, PositionAdvance]) -> int:
        """Writes points, items and positions; returns how many points and items there were.

        Raises OvertakenError if another instance wrote them first, RewoundError if the rows were restored to
        an earlier state, StatementTimeoutError if it takes too long.
        """
        rows = rows_of(messages)
        if rows.purged:
            await self._purge(rows.purged, advances)

        async def work(connection: Connection) -> None:
            found = await self._positions(connection)
            if all(found.get(partition) == advance.end for partition, advance in advances.items()):
                return  # an earlier try was committed, its answer was lost
            await self._write(connection, rows, advances)

        await self._database.commit_with_retries(work, self._report_wait, retries_timeouts=False)
        if rows.purged or len(self._known) > KNOWN_SERIES:
            self._known.clear()
        self._known.update(rows.series)
        return len(rows.points) + len(rows.items)

    async def _purge(self, jobs: Sequence[str], advances: Mapping[int, PositionAdvance]) -> None:
        """Removes the points of jobs, many in a transaction each, while the positions are those before."""

        async def work(connection: Connection) -> bool:
            found = await self._positions(connection)
            if all(found.get(partition) == advance.end for partition, advance in advances.items()):
                return False
            for partition, advance in sorted(advances.items()):
                place = (self._topic.name, partition)
                await move_position(connection, SUMMARY_INDEXER, place, advance.start, advance.start)
            return await purge_points(connection, jobs, PURGED_POINTS)

        while await self._database.commit_with_retries(work, self._report_wait):
            pass

    async def _write(
        self, connection: Connection, rows: MetricRows, advances: Mapping[int, PositionAdvance]
    ) -> None:
        # The same order in all writers, so that they can't deadlock.
        for partition, advance in sorted(advances.items()):
            place = (self._topic.name, partition)
            await move_position(connection, SUMMARY_INDEXER, place, advance.start, advance.end)
        await write_metrics(connection, rows, () if rows.purged else self._known)
        ends = {(self._topic.name, partition): advance.end for partition, advance in advances.items()}
        changed = None if rows.purged else {str(row[STREAM_OF_SERIES]) for row in rows.series.values()}
        await notify(connection, self._database.schema, SUMMARY_INDEXER, ends, changed)

    async def _positions(self, connection: Connection) -> dict[int, int]:
        found = await read_positions(connection, SUMMARY_INDEXER)
        return {part: position for (topic, part), position in found.items() if topic == self._topic.name}
