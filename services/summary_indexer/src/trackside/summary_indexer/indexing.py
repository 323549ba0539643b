"""Batches of points on their way into Postgres: read ahead, decoded, written as soon as Postgres is free.

No timer gathers a batch: while one transaction runs the next batch grows, so a lone point is visible after
one commit and a flood is written in large batches.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from trackside.contracts.codec import UndecodableError
from trackside.contracts.commands import RecordDeadLettered
from trackside.contracts.summaries import MetricPointsReported
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.dead_letters import dead_letter
from trackside.eventlog.log import Entry
from trackside.summary_indexer.poison import points_of
from trackside.summary_indexer.store import Move
from trackside.telemetry.metrics import counter, histogram

log = structlog.get_logger("trackside.summary_indexer")

BEGIN_S = 25.0
"""How long positions may take to come from Postgres; shorter than faust's own limit for a seek."""


class GapError(Exception):
    """Records are missing between what was read and what came next."""


class Points(Protocol):
    """Where points go."""

    async def positions(self) -> dict[int, int]:
        """Gives the next offset to index of every partition."""
        ...

    async def write_points(self, messages: Sequence[MetricPointsReported], moves: Mapping[int, Move]) -> int:
        """Writes points and positions as one; gives how many points."""
        ...


class Records(Protocol):
    """Where records come from, beside the stream of them."""

    async def check(self, positions: Mapping[int, int]) -> None:
        """Raises OffsetGoneError if the log doesn't reach these positions."""
        ...

    async def is_hole(self, partition: int, start: int, end: int) -> bool:
        """Says whether the log has nothing from `start` to before `end`."""
        ...

    async def write_dead_letter(self, letter: RecordDeadLettered) -> None:
        """Appends a dead letter."""
        ...


@dataclass(slots=True)
class _Read:
    partition: int
    offset: int
    points: int
    message: MetricPointsReported | None


@dataclass(slots=True)
class Batch:
    """What one transaction writes."""

    messages: list[MetricPointsReported] = field(default_factory=list)
    moves: dict[int, Move] = field(default_factory=dict)


class Indexer:
    """Takes records in order, and writes them; a record behind the stored position changes nothing."""

    def __init__(
        self,
        store: Points,
        source: Records,
        *,
        batch_points: int,
        buffer_points: int,
    ) -> None:
        self._store, self._source = store, source
        self._batch_points, self._buffer_points = batch_points, buffer_points
        self._buffered = 0
        self._reached: dict[int, int] = {}
        self._written: dict[int, int] = {}
        self._waiting: deque[_Read] = deque()
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._turn = asyncio.Lock()

    @property
    def positions(self) -> dict[int, int]:
        """The next offset to write of each partition that is read here; empty until reading has begun."""
        return self._written

    async def begin(self, partitions: set[int]) -> Mapping[int, int]:
        """Forgets what isn't written and gives the stored positions, 0 if there are none.

        Waits for the transaction under way, since that moves them. Raises TimeoutError after 25 s.
        """
        async with asyncio.timeout(BEGIN_S), self._turn:
            self._waiting.clear()
            self._buffered = 0
            stored = await self._store.positions()
            starts = {partition: stored.get(partition, 0) for partition in partitions}
            await self._source.check(starts)
            self._reached = starts
            self._written = dict(self._reached)
            self._room.set()
            log.info("reading from the stored positions", positions=self._reached)
            return dict(starts)

    async def accept(self, entry: Entry) -> None:
        """Takes a record; waits while there is no room. Raises GapError if records before it are missing."""
        while self._buffered >= self._buffer_points:
            self._room.clear()
            await self._room.wait()
        expected = self._reached.get(entry.partition)
        if expected is None or entry.offset < expected:
            return
        if entry.offset > expected and not await self._source.is_hole(
            entry.partition, expected, entry.offset
        ):
            raise GapError(
                f"{entry.topic}-{entry.partition}: expected offset {expected}, got {entry.offset}, "
                "and the log has what is between; the process starts again from the stored position"
            )
        message = await self._decoded(entry)
        if self._reached.get(entry.partition) != expected:
            return  # reading began anew meanwhile
        points = sum(len(series.steps) for series in message.series) if message else 1
        self._reached[entry.partition] = entry.offset + 1
        self._buffered += points
        self._waiting.append(_Read(entry.partition, entry.offset, points, message))
        self._arrived.set()

    async def write_on(self) -> None:
        """Writes what was taken, batch after batch, until cancelled. Raises OvertakenError, RewoundError."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                async with self._turn:
                    await self._write(self._taken())

    async def _decoded(self, entry: Entry) -> MetricPointsReported | None:
        try:
            return points_of(entry)
        except UndecodableError as error:
            log.warning("record skipped", partition=entry.partition, offset=entry.offset, code=error.code)
            await self._source.write_dead_letter(dead_letter(entry, error, "summary-indexer"))
            return None

    def _taken(self) -> Batch:
        """Takes the records of one transaction off the buffer."""
        batch, points = Batch(), 0
        while self._waiting and points < self._batch_points:
            read = self._waiting.popleft()
            points += read.points
            if read.message is not None:
                batch.messages.append(read.message)
            before = batch.moves.get(read.partition)
            start = before.start if before else self._written[read.partition]
            batch.moves[read.partition] = Move(start, read.offset + 1)
        self._buffered -= points
        self._room.set()
        return batch

    async def _write(self, batch: Batch) -> None:
        if not batch.moves:
            return
        started = monotonic_s()
        points = await self._store.write_points(batch.messages, batch.moves)
        histogram("trackside.summary_indexer.index.seconds").observe(monotonic_s() - started)
        counter("trackside.summary_indexer.indexed.points").inc(points)
        counter("trackside.summary_indexer.indexed.batches").inc(len(batch.messages))
        self._written |= {partition: move.end for partition, move in batch.moves.items()}
