"""Replaces the live schema by a rebuilt one, without a gap for readers and without older rows.

Services go on writing during a rebuild. So the rebuilt rows catch up with the live ones, by the same fold
that services use; the last records while writers are locked out, so that both have the same positions and
services continue without noticing. Then the schemas are renamed. Readers don't wait, and never see less than
before: the swap waits until no transaction is left whose snapshot is older than the rebuilt rows.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.wire.codec import UndecodableError
from trackside.domain.folding.streams import load
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Entry, Log, Reader, TopicPartition
from trackside.eventlog.reactor.recovery import Recovered
from trackside.projections.database.notifications import notify
from trackside.projections.database.positions import move_positions, read_positions
from trackside.projections.database.postgres import (
    LIVE_SCHEMA,
    Connection,
    lock_tables,
    tentative_transaction,
)
from trackside.projections.database.reader_sessions import BEFORE_CHANGE_S, end_sessions
from trackside.projections.database.upserts import upsert
from trackside.projections.tables.metrics import rows_of
from trackside.projections.tables.owners import DISPATCHER, OWNERS
from trackside.projections.writing.metric_writes import write_metrics
from trackside.projections.writing.migrate import drop_schemas, hold_writers, readers, swap_schemas
from trackside.projections.writing.projection_state import ProjectionState
from trackside.projections.writing.snapshots import checkpoint, write_checkpoint
from trackside.replay.history.errors import SILENCE_LIMIT_S, BusyError, SilentLogError
from trackside.replay.rebuild.log_fold import StreamStates
from trackside.summary_indexer.validation import decode_summaries

SWAP_PREFIX = "rebuild_"
MAX_ROUNDS = 100
FEW_RECORDS = 500
LOCK_LIMIT_S = 10.0
WAIT_S, RETRY_PAUSE_S, POLL_S = 0.5, 0.2, 0.005
Cuts = Mapping[str, Mapping[TopicPartition, int]]
Offsets = Mapping[TopicPartition, int]


@asynccontextmanager
async def exclusive_swap(dsn: str, schema: str, fresh: str) -> AsyncIterator[None]:
    """Excludes other swaps of `schema` while the block runs; first drops what a killed one has left.

    After it, the schemas whose names begin with `fresh` are dropped. Raises BusyError if another swaps.
    """
    try:
        async with tentative_transaction(dsn, schema) as attempt:
            names = f"{schema}.definitions"
            if not await lock_tables(attempt.connection, names, WAIT_S, "SHARE UPDATE EXCLUSIVE"):
                raise BusyError("another process swaps the read models; try again when it is done")
            await _drop(dsn, SWAP_PREFIX)
            yield
    finally:  # after the lock, which may be of a table that is dropped
        await _drop(dsn, fresh)


async def _drop(dsn: str, beginning: str) -> None:
    async with tentative_transaction(dsn, LIVE_SCHEMA) as attempt:
        await drop_schemas(attempt.connection, beginning)
        attempt.keep()


async def write_snapshots(connection: Connection, topics: Topics, states: StreamStates, cuts: Cuts) -> None:
    """Writes snapshots of the streams at the dispatcher's positions, so that it starts quickly from them."""
    events = topics.events.name
    for (topic, partition), position in cuts[DISPATCHER].items():
        if topic == events:
            streams = (load(state, AGGREGATES) for state in states.get(DISPATCHER, {}).get(partition, []))
            snapshot = checkpoint(partition, position, streams)
            await write_checkpoint(connection, snapshot)


class SchemaSwap:
    """Swaps a schema whose rows go up to `cuts` with the live one; `states` are the streams at those cuts.

    It must be committed before: a transaction with an older snapshot would see its tables empty.
    """

    def __init__(self, log: Log, topics: Topics, states: StreamStates, cuts: Cuts, dsn: str) -> None:
        self._dsn = dsn
        self._owners = [
            _OwnerCatchUp(name, log, topics, states.get(name, {}), places) for name, places in cuts.items()
        ]

    async def swap(self, live: str, rebuilt: str) -> int:
        """Swaps; returns how many records were folded that were written during the rebuild.

        Raises BusyError, SilentLogError, TimeoutError, and what folding raises: then the live rows stay.
        """
        total = 0
        try:
            for _ in range(MAX_ROUNDS):
                async with tentative_transaction(self._dsn, live) as reading:
                    goals = await self._goals(reading.connection)
                found = await self._catch_up(rebuilt, goals)
                total += found
                if found >= FEW_RECORDS:
                    continue
                swapped, found = await self._try(live, rebuilt)
                total += found
                if swapped:
                    return total
                await asyncio.sleep(RETRY_PAUSE_S)
        finally:
            for owner in self._owners:
                await owner.close()
        raise BusyError("a long transaction reads or locks the read models; end it and try again")

    async def _try(self, live: str, rebuilt: str) -> tuple[bool, int]:
        """Locks writers out, folds the last records and swaps, unless a reader blocks it for long."""
        async with asyncio.timeout(LOCK_LIMIT_S), tentative_transaction(self._dsn, live) as attempt:
            connection = attempt.connection
            if not await hold_writers(connection, live, WAIT_S):
                return False, 0
            found = await self._catch_up(rebuilt, await self._goals(connection))
            if not await _readers_gone(connection, await readers(connection)):
                return False, found
            await swap_schemas(connection, live=live, fresh=rebuilt)
            for owner in self._owners:
                await notify(connection, live, owner.owner, {}, None)
            attempt.keep()
        return True, found

    async def _goals(self, connection: Connection) -> dict[str, Offsets]:
        return {owner.owner: await read_positions(connection, owner.owner) for owner in self._owners}

    async def _catch_up(self, rebuilt: str, goals: Mapping[str, Offsets]) -> int:
        """Folds the rebuilt rows up to the given positions, and commits them."""
        async with tentative_transaction(self._dsn, rebuilt) as attempt:
            found = [
                await owner.catch_up_to(attempt.connection, goals[owner.owner]) for owner in self._owners
            ]
            attempt.keep()
        return sum(found)


async def _readers_gone(connection: Connection, earlier: set[str]) -> bool:
    """Waits for readers whose snapshot is older than the rebuilt rows: they would find the tables empty.

    After 0.25 s it ends those of the login of dashboards.
    """
    for wait_s in (BEFORE_CHANGE_S, WAIT_S):
        deadline_s = monotonic_s() + wait_s
        while monotonic_s() < deadline_s:
            if not earlier & await readers(connection):
                return True
            await asyncio.sleep(POLL_S)
        await end_sessions(connection, BEFORE_CHANGE_S)
    return False


class _OwnerCatchUp:
    """Writes one owner's rows from its cut on."""

    def __init__(
        self, owner: str, log: Log, topics: Topics, states: Mapping[int, list[bytes]], cuts: Offsets
    ) -> None:
        self.owner = owner
        self._log, self._cuts = log, cuts
        self._metrics = topics.metrics.name
        places = {place: cut for place, cut in cuts.items() if place[0] != self._metrics}
        self._state = ProjectionState(OWNERS[owner], topics, places)
        events = {place[1]: cut for place, cut in cuts.items() if place[0] == topics.events.name}
        streams = [load(state, AGGREGATES) for partition in states.values() for state in partition]
        self._state.adopt(Recovered(streams, events))
        self._next = {place: cut for place, cut in cuts.items() if place[0] == self._metrics}
        self._next |= self._state.starts()
        self._later: list[Entry] = []
        self._reader: Reader | None = None

    async def catch_up_to(self, connection: Connection, goals: Offsets) -> int:
        """Folds and writes up to `goals`; returns how many of the records are after the cuts."""
        missing = {place for place, goal in goals.items() if self._next.get(place, 0) < goal}
        unread, later, count, last_read_s = self._later, list[Entry](), 0, monotonic_s()
        while missing:
            entries = unread or await self._read(goals)
            unread = []
            if entries:
                last_read_s = monotonic_s()
            elif monotonic_s() - last_read_s > SILENCE_LIMIT_S:
                raise SilentLogError(f"{self.owner} had read more than came in {SILENCE_LIMIT_S:.0f} s")
            inside = []
            for entry in entries:
                place = (entry.topic, entry.partition)
                if entry.offset >= goals.get(place, 0):
                    later.append(entry)
                    continue
                inside.append(entry)
                self._next[place] = entry.offset + 1
                if entry.offset + 1 >= goals[place]:
                    missing.discard(place)
            await self._write(connection, inside)
            count += sum(entry.offset >= self._cuts[entry.topic, entry.partition] for entry in inside)
        self._later = [*later, *unread]
        return count

    async def _read(self, goals: Offsets) -> list[Entry]:
        if self._reader is None:
            self._reader = self._log.reader({place: self._next.get(place, 0) for place in goals})
        return await self._reader.read(1.0)

    async def _write(self, connection: Connection, entries: Sequence[Entry]) -> None:
        self._state.fold(entry for entry in entries if entry.topic != self._metrics)
        await self._state.read_again(self._log)
        taken = self._state.changes.take(self._state.folded)
        for write in [write for pending in taken.values() for write in pending.writes()]:
            await upsert(connection, write)
        await self._write_summaries(connection, [entry for entry in entries if entry.topic == self._metrics])
        ends = {place: pending.end for place, pending in taken.items()}
        ends |= {(e.topic, e.partition): e.offset + 1 for e in entries if e.topic == self._metrics}
        await move_positions(connection, self.owner, ends)
        self._state.mark_written(taken, {})

    async def _write_summaries(self, connection: Connection, entries: Sequence[Entry]) -> None:
        messages = []
        for entry in entries:
            try:
                messages.append(decode_summaries(entry))
            except UndecodableError:  # it is a dead letter
                continue
        if messages:
            await write_metrics(connection, rows_of(messages))

    async def close(self) -> None:
        """Closes its reader."""
        if self._reader is not None:
            await self._reader.close()
