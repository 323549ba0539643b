"""Records of metric points, and an in-memory store of points with the guarantees of the one in Postgres."""

import asyncio
from collections.abc import Mapping, Sequence

from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.summaries import MetricPointsReported, Series
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Outgoing
from trackside.projections.database.positions import OvertakenError
from trackside.projections.tables.metrics import Reported, rows_of
from trackside.summary_indexer.store import PositionAdvance

TOPICS = Topics()
WRITER = RecordWriter("worker", "w1")


def batch(task: str = "s.1", first: int = 0, count: int = 3, attempt: int = 1) -> MetricPointsReported:
    """Returns a batch of one series, with steps from `first`."""
    steps = list(range(first, first + count))
    series = Series(tag="loss", steps=steps, times_ms=[1_000] * count, values=[step / 2 for step in steps])
    return MetricPointsReported(stream="s", task_id=task, attempt=attempt, series=[series])


def outgoing(message: Message) -> Outgoing:
    return WRITER.single("s", message)


def entry(offset: int, record: Outgoing, partition: int = 0) -> Entry:
    return Entry(TOPICS.metrics.name, partition, offset, 1_000, record.key, record.value, record.headers)


class PointsInMemory:
    """Points and positions in memory, written by compare-and-set."""

    def __init__(self, positions: Mapping[int, int] | None = None) -> None:
        self.stored = dict.fromkeys(range(TOPICS.metrics.partitions), 0) | dict(positions or {})
        self.points: dict[tuple[int, int], float | None] = {}
        self.transactions: list[int] = []
        self._moved = asyncio.Condition()

    async def until_position(self, partition: int, position: int) -> None:
        """Waits until a position is stored, a minute at most."""
        async with asyncio.timeout(60), self._moved:
            await self._moved.wait_for(lambda: self.stored[partition] >= position)

    async def positions(self) -> dict[int, int]:
        return dict(self.stored)

    async def write(self, messages: Sequence[Reported], advances: Mapping[int, PositionAdvance]) -> int:
        for partition, advance in advances.items():
            if self.stored[partition] != advance.start:
                raise OvertakenError(self.stored[partition])
        points = rows_of(messages).points
        for number, step, _time, value, _non_finite in points:
            self.points.setdefault((number, step), value)
        self.stored |= {partition: advance.end for partition, advance in advances.items()}
        self.transactions.append(len(points))
        async with self._moved:
            self._moved.notify_all()
        return len(points)
