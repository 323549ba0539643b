"""Writes metric points into Postgres: records are read ahead, decoded, and written in batches.

No timer collects a batch: while one transaction runs, the next batch grows. So a single point is visible
after one commit, and many points are written in large batches.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from trackside.contracts.streams.commands import RecordDeadLettered
from trackside.contracts.tasks.summaries import SummaryUpdaterFailed
from trackside.contracts.wire.codec import UndecodableError
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.keys.dead_letters import dead_letter
from trackside.eventlog.keys.encryption import RETRY_S, Decryption, decrypt_or_wait, is_encrypted
from trackside.eventlog.log import Entry
from trackside.projections.database.postgres import StatementTimeoutError
from trackside.projections.tables.metrics import Reported
from trackside.summary_indexer.store import PositionAdvance
from trackside.summary_indexer.validation import decode_summaries, size_of
from trackside.telemetry.metrics import counter, gauge, histogram

log = structlog.get_logger("trackside.summary_indexer")

MOST_RECORDS = 1_000_000
"""How many records a transaction has at most; fewer after one took too long."""
TRIES_OF_A_RECORD = 3
"""How often a record alone may take too long before it is left out."""
ASSIGN_TIMEOUT_S = 25.0
"""How long reading the positions from Postgres may take; less than faust's own limit for a seek."""


class GapError(Exception):
    """Records between the last one read and the next were not delivered, although the log has them."""


class PointsSink(Protocol):
    """Stores points and positions."""

    async def positions(self) -> dict[int, int]:
        """Returns the next offset to index of every partition."""
        ...

    async def write(self, messages: Sequence[Reported], advances: Mapping[int, PositionAdvance]) -> int:
        """Writes records and positions in one transaction; returns how many points and items they have.

        Raises StatementTimeoutError if that takes too long.
        """
        ...


class SourceLog(Protocol):
    """The log that the records come from."""

    async def check_positions(self, positions: Mapping[int, int]) -> None:
        """Raises OffsetGoneError if a position is outside the log."""
        ...

    async def is_empty_range(self, partition: int, start: int, end: int) -> bool:
        """Returns whether the log has no record from `start` to before `end`."""
        ...

    async def write_dead_letter(self, letter: RecordDeadLettered) -> None:
        """Appends a dead letter."""
        ...


@dataclass(slots=True)
class _BufferedRecord:
    entry: Entry
    points: int
    message: Reported | None
    tries: int = 0
    """How often it alone took too long to write."""


class Indexer:
    """Accepts records in order and writes them; a record before the stored position is skipped.

    `on_written` gets the jobs of each batch once it is committed. Records of encrypted streams are decrypted,
    and skipped where the key of the stream was deleted.
    """

    def __init__(
        self,
        store: PointsSink,
        source_log: SourceLog,
        *,
        batch_points: int,
        buffer_points: int,
        on_written: Callable[[Collection[str]], None] = lambda jobs: None,
        decryption: Decryption | None = None,
    ) -> None:
        self._decryption = decryption
        self._store, self._log = store, source_log
        self._batch_points, self._buffer_points = batch_points, buffer_points
        self._on_written = on_written
        self._buffered = 0
        self._next_read: dict[int, int] = {}
        self._next_write: dict[int, int] = {}
        self._buffer: deque[_BufferedRecord] = deque()
        self._writing: list[_BufferedRecord] = []
        self._most_records = MOST_RECORDS
        self._accepting = 0
        gauge("trackside.summary_indexer.lag.seconds").set_function(self._lag_s)
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._transaction = asyncio.Lock()

    @property
    def positions(self) -> dict[int, int]:
        """The next offset to write of each assigned partition; empty until partitions are assigned."""
        return self._next_write

    @property
    def is_working(self) -> bool:
        """Whether it takes a record in, has some to write, or is in a transaction: then it need not read."""
        return bool(self._buffer) or self._transaction.locked() or self._accepting > 0

    async def assign(self, partitions: set[int]) -> Mapping[int, int]:
        """Discards what is not written and returns the stored positions, 0 if there are none.

        Waits for the running transaction, which advances them. Raises TimeoutError after 25 s.
        """
        async with asyncio.timeout(ASSIGN_TIMEOUT_S), self._transaction:
            self._buffer.clear()
            self._buffered = 0
            stored = await self._store.positions()
            starts = {partition: stored.get(partition, 0) for partition in partitions}
            await self._log.check_positions(starts)
            self._next_read = starts
            self._next_write = dict(self._next_read)
            self._room.set()
            log.info("reading from the stored positions", positions=self._next_read)
            return dict(starts)

    async def accept(self, entry: Entry) -> None:
        """Buffers a record; waits while the buffer is full. Raises GapError if any is missing before it."""
        self._accepting += 1
        try:
            await self._accept(entry)
        finally:
            self._accepting -= 1

    async def _accept(self, entry: Entry) -> None:
        while self._buffered >= self._buffer_points:
            self._room.clear()
            await self._room.wait()
        expected = self._next_read.get(entry.partition)
        if expected is None or entry.offset < expected:
            return
        if entry.offset > expected and not await self._log.is_empty_range(
            entry.partition, expected, entry.offset
        ):
            raise GapError(
                f"{entry.topic}-{entry.partition}: expected offset {expected}, got {entry.offset}, "
                "but the log has the records between; the process restarts from the stored position"
            )
        message = await self._decode(entry)
        if self._next_read.get(entry.partition) != expected:
            return  # partitions were assigned again meanwhile
        points = size_of(message) if message else 1
        self._next_read[entry.partition] = entry.offset + 1
        self._buffered += points
        self._buffer.append(_BufferedRecord(entry, points, message))
        self._arrived.set()

    async def run_writer(self) -> None:
        """Writes batch after batch until cancelled. Raises OvertakenError and RewoundError of the store."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._buffer:
                async with self._transaction:
                    await self._write(self._next_batch())

    async def _decode(self, entry: Entry) -> Reported | None:
        if is_encrypted(entry):
            if self._decryption is not None:
                while not await decrypt_or_wait(self._decryption, [entry], RETRY_S):
                    pass
            if is_encrypted(entry):
                return None
        try:
            return decode_summaries(entry)
        except UndecodableError as error:
            await self._leave_out(entry, error)
            return None

    async def _leave_out(self, entry: Entry, error: UndecodableError) -> None:
        log.warning("record skipped", partition=entry.partition, offset=entry.offset, code=error.code)
        await self._log.write_dead_letter(dead_letter(entry, error, "summary-indexer"))

    def _next_batch(self) -> list[_BufferedRecord]:
        """Removes the records of the next transaction from the buffer."""
        batch: list[_BufferedRecord] = []
        points = 0
        while self._buffer and points < self._batch_points and len(batch) < self._most_records:
            batch.append(self._buffer.popleft())
            points += batch[-1].points
        self._buffered -= points
        self._writing = batch
        self._room.set()
        return batch

    def _lag_s(self) -> float:
        """Returns the age of the oldest record that is not written, s; it grows while Postgres is away."""
        oldest = next(iter(self._writing or self._buffer), None)
        return 0.0 if oldest is None else max(0.0, (now_ms() - oldest.entry.append_time_ms) / 1000)

    async def _write(self, batch: list[_BufferedRecord]) -> None:
        if not batch:
            return
        started = monotonic_s()
        messages = [record.message for record in batch if record.message is not None]
        advances = self._advances(batch)
        try:
            points = await self._store.write(messages, advances)
        except StatementTimeoutError as error:
            await self._write_less(batch, error)
            return
        finally:
            self._writing = []
        # Slowly, for a batch that is too large again costs the time of many that are not.
        self._most_records = min(self._most_records + self._most_records // 8 + 1, MOST_RECORDS)
        histogram("trackside.summary_indexer.index.seconds").observe(monotonic_s() - started)
        counter("trackside.summary_indexer.indexed.points").inc(points)
        counter("trackside.summary_indexer.indexed.batches").inc(len(messages))
        self._next_write |= {partition: advance.end for partition, advance in advances.items()}
        jobs = {message.task_id for message in messages if not isinstance(message, SummaryUpdaterFailed)}
        if jobs:
            self._on_written(jobs)

    def _advances(self, batch: Sequence[_BufferedRecord]) -> dict[int, PositionAdvance]:
        """Returns how far a batch advances each partition."""
        ends = {record.entry.partition: record.entry.offset + 1 for record in batch}
        return {
            partition: PositionAdvance(self._next_write[partition], end) for partition, end in ends.items()
        }

    async def _write_less(self, batch: list[_BufferedRecord], error: StatementTimeoutError) -> None:
        """Puts a batch back that took too long, to be written in halves; leaves out a record that alone did.

        A record is only to blame if Postgres answers something else in time.
        """
        self._buffer.extendleft(reversed(batch))
        self._buffered += sum(record.points for record in batch)
        if len(batch) > 1:
            self._most_records = len(batch) // 2
            log.warning("a batch took too long: its halves are tried", records=len(batch), reason=str(error))
            return
        [record] = batch
        await self._store.positions()
        record.tries += 1
        if record.tries >= TRIES_OF_A_RECORD and record.message is not None:
            await self._leave_out(record.entry, UndecodableError("too_slow", str(error)))
            record.message = None
