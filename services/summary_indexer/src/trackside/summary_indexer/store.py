"""Points and the positions they reach, in one transaction: the position is the fence against a repeat."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trackside.contracts.summaries import MetricPointsReported
from trackside.contracts.topics import Topic
from trackside.projections.metrics import POINTS, SERIES, rows_of
from trackside.projections.migrate import migrate
from trackside.projections.owners import SUMMARY_INDEXER
from trackside.projections.positions import ensure_positions, move_position, read_positions
from trackside.projections.postgres import Connection, Database, copy_new, upsert
from trackside.projections.projection import RowValues, TableWrite

KNOWN_SERIES = 100_000
"""How many series are remembered as written, to leave them out; beyond, all are forgotten."""
Waiting = Callable[[str | None], None]


@dataclass(frozen=True, slots=True)
class Move:
    """How far a batch takes a partition: from the position it builds on to the one after its last record."""

    start: int
    end: int


class PointsStore:
    """Writes points of one topic with its positions; tries until Postgres has them."""

    def __init__(self, database: Database, topic: Topic, waiting: Waiting) -> None:
        self._database, self._topic, self._waiting = database, topic, waiting
        self._known: set[int] = set()

    async def positions(self) -> dict[int, int]:
        """Gives the next offset to index of every partition, 0 at first; creates what is missing."""
        places = [(self._topic.name, partition) for partition in range(self._topic.partitions)]

        async def prepared(connection: Connection) -> dict[int, int]:
            await migrate(connection, self._database.schema)
            await ensure_positions(connection, SUMMARY_INDEXER, places)
            return await self._positions(connection)

        return await self._database.commit_with_retries(prepared, self._waiting)

    async def write_points(self, messages: Sequence[MetricPointsReported], moves: Mapping[int, Move]) -> int:
        """Writes points and positions; gives how many points they were.

        Raises OvertakenError if another writer was here first, RewoundError if the rows went back in time.
        """
        series, points = rows_of(messages)
        new = [row for row in series if row[0] not in self._known]

        async def work(connection: Connection) -> None:
            found = await self._positions(connection)
            if all(found.get(partition) == move.end for partition, move in moves.items()):
                return  # an earlier try stands, its answer was lost
            await self._write(connection, new, points, moves)

        await self._database.commit_with_retries(work, self._waiting)
        if len(self._known) > KNOWN_SERIES:
            self._known.clear()
        self._known.update(row[0] for row in new)
        return len(points)

    async def _write(
        self,
        connection: Connection,
        series: Sequence[RowValues],
        points: Sequence[RowValues],
        moves: Mapping[int, Move],
    ) -> None:
        for partition, move in sorted(
            moves.items()
        ):  # one order for all writers, so that none waits in a ring
            place = (self._topic.name, partition)
            await move_position(connection, SUMMARY_INDEXER, place, move.start, move.end)
        if series:
            await upsert(connection, TableWrite(SERIES, list(series)))
        if points:
            await copy_new(connection, POINTS, points)

    async def _positions(self, connection: Connection) -> dict[int, int]:
        found = await read_positions(connection, SUMMARY_INDEXER)
        return {part: position for (topic, part), position in found.items() if topic == self._topic.name}
