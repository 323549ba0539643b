"""Puts rebuilt rows in the place of the live ones, without a gap and without a step back.

While a rebuild ran, services wrote on. So the rebuilt rows are brought to where the live ones are, with the
same folding that services use; the last records while writers wait, so that positions are the same on both
sides and services go on as if nothing had happened. Then names are changed. Who reads waits for nothing, and
never sees less than before: no reader is left whose moment lies before the rebuilt rows.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.codec import UndecodableError
from trackside.contracts.topics import Topics
from trackside.domain.streams import load
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Entry, Log, Reader, TopicPartition
from trackside.eventlog.recovery import Recovered
from trackside.projections.metrics import POINTS, SERIES, rows_of
from trackside.projections.migrate import drop_schemas, hold_writers, readers, swap_schemas
from trackside.projections.owners import DISPATCHER, OWNERS
from trackside.projections.positions import move_positions, read_positions
from trackside.projections.postgres import LIVE_SCHEMA, Connection, copy_new, tentative_transaction, upsert
from trackside.projections.projection import TableWrite
from trackside.projections.projection_state import ProjectionState
from trackside.projections.snapshots import checkpoint, write_checkpoint
from trackside.replay.history.errors import SILENCE_LIMIT_S, BusyError, SilentLogError
from trackside.replay.rebuild.fold import States
from trackside.summary_indexer.validation import decode_points

SWAP_PREFIX = "rebuild_"
ROUNDS = 100
FEW_RECORDS = 500
HELD_LIMIT_S = 10.0
WAIT_S, PAUSE_S, LOOK_S = 0.5, 0.2, 0.005
_LOCK = 7_239_405_120
Cuts = Mapping[str, Mapping[TopicPartition, int]]
Places = Mapping[TopicPartition, int]


@asynccontextmanager
async def swapping(dsn: str) -> AsyncIterator[None]:
    """Keeps other swaps away while the block runs, and drops what it, or one that was killed, leaves behind.

    Raises BusyError if there is another one.
    """
    async with tentative_transaction(dsn, LIVE_SCHEMA) as attempt:
        connection = attempt.connection
        if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _LOCK):
            raise BusyError("somebody swaps the read models now; try again when that is done")
        # A simple query ends the portal of the one before, which keeps a moment that the swap waits for.
        await connection.execute("SELECT 1")
        await _clear(dsn)
        try:
            yield
        finally:
            await _clear(dsn)


async def _clear(dsn: str) -> None:
    async with tentative_transaction(dsn, LIVE_SCHEMA) as attempt:
        await drop_schemas(attempt.connection, SWAP_PREFIX)
        attempt.keep()


async def write_snapshots(connection: Connection, topics: Topics, states: States, cuts: Cuts) -> None:
    """Writes the streams as the dispatcher's rows have them, so that it starts quickly from them too."""
    events = topics.events.name
    for (topic, partition), position in cuts[DISPATCHER].items():
        if topic == events:
            streams = (load(state, AGGREGATES) for state in states.get(DISPATCHER, {}).get(partition, []))
            taken = checkpoint(partition, position, streams)
            await write_checkpoint(connection, taken)


class Swapping:
    """Swaps a schema whose rows go up to `cuts` with the live one; `states` are the streams at those cuts.

    It must be committed before: a reader whose moment lies before the commit would see its tables empty.
    """

    def __init__(self, log: Log, topics: Topics, states: States, cuts: Cuts, dsn: str) -> None:
        self._dsn = dsn
        self._tails = [
            _Tail(name, log, topics, states.get(name, {}), places) for name, places in cuts.items()
        ]

    async def swap(self, live: str, fresh: str) -> int:
        """Swaps; gives how many records were folded that came while the rows were rebuilt.

        Raises BusyError, SilentLogError, TimeoutError, and what folding raises: then the live rows stay.
        """
        total = 0
        try:
            for _ in range(ROUNDS):
                async with tentative_transaction(self._dsn, live) as reading:
                    goals = await self._goals(reading.connection)
                found = await self._catch_up(fresh, goals)
                total += found
                if found >= FEW_RECORDS:
                    continue
                swapped, found = await self._try(live, fresh)
                total += found
                if swapped:
                    return total
                await asyncio.sleep(PAUSE_S)
        finally:
            for tail in self._tails:
                await tail.close()
        raise BusyError("a long transaction reads or locks the read models; end it and try again")

    async def _try(self, live: str, fresh: str) -> tuple[bool, int]:
        """Lets writers wait, folds the last records and swaps, if no reader is in the way for long."""
        async with asyncio.timeout(HELD_LIMIT_S), tentative_transaction(self._dsn, live) as attempt:
            connection = attempt.connection
            if not await hold_writers(connection, live, WAIT_S):
                return False, 0
            found = await self._catch_up(fresh, await self._goals(connection))
            if not await _all_gone(connection, await readers(connection)):
                return False, found
            await swap_schemas(connection, live=live, fresh=fresh)
            attempt.keep()
        return True, found

    async def _goals(self, connection: Connection) -> dict[str, Places]:
        return {tail.owner: await read_positions(connection, tail.owner) for tail in self._tails}

    async def _catch_up(self, fresh: str, goals: Mapping[str, Places]) -> int:
        """Brings the fresh rows to the positions given, and commits them."""
        async with tentative_transaction(self._dsn, fresh) as attempt:
            found = [await tail.to(attempt.connection, goals[tail.owner]) for tail in self._tails]
            attempt.keep()
        return sum(found)


async def _all_gone(connection: Connection, before: set[str]) -> bool:
    """Waits for readers whose moment lies before the fresh rows: they would find the fresh tables empty."""
    deadline_s = monotonic_s() + WAIT_S
    while True:
        if not before & await readers(connection):
            return True
        if monotonic_s() > deadline_s:
            return False
        await asyncio.sleep(LOOK_S)


class _Tail:
    """Writes one owner's rows from its cut on, as far as it is told."""

    def __init__(
        self, owner: str, log: Log, topics: Topics, states: Mapping[int, list[bytes]], cuts: Places
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
        self._held: list[Entry] = []
        self._reader: Reader | None = None

    async def to(self, connection: Connection, goals: Places) -> int:
        """Folds and writes up to `goals`; gives how many of the records lie behind the cuts."""
        missing = {place for place, goal in goals.items() if self._next.get(place, 0) < goal}
        waiting, held, count, heard = self._held, list[Entry](), 0, monotonic_s()
        while missing:
            entries = waiting or await self._read(goals)
            waiting = []
            if entries:
                heard = monotonic_s()
            elif monotonic_s() - heard > SILENCE_LIMIT_S:
                raise SilentLogError(f"{self.owner} had read more than came in {SILENCE_LIMIT_S:.0f} s")
            inside = []
            for entry in entries:
                place = (entry.topic, entry.partition)
                if entry.offset >= goals.get(place, 0):
                    held.append(entry)
                    continue
                inside.append(entry)
                self._next[place] = entry.offset + 1
                if entry.offset + 1 >= goals[place]:
                    missing.discard(place)
            await self._write(connection, inside)
            count += sum(entry.offset >= self._cuts[entry.topic, entry.partition] for entry in inside)
        self._held = [*held, *waiting]
        return count

    async def _read(self, goals: Places) -> list[Entry]:
        if self._reader is None:
            self._reader = self._log.reader({place: self._next.get(place, 0) for place in goals})
        return await self._reader.read(1.0)

    async def _write(self, connection: Connection, entries: Sequence[Entry]) -> None:
        self._state.fold(entry for entry in entries if entry.topic != self._metrics)
        pending = self._state.pending
        for write in [write for of_place in pending.values() for write in of_place.writes()]:
            await upsert(connection, write)
        self._state.shrink_closed()
        await self._write_points(connection, [entry for entry in entries if entry.topic == self._metrics])
        ends = {place: of_place.end for place, of_place in pending.items()}
        ends |= {(e.topic, e.partition): e.offset + 1 for e in entries if e.topic == self._metrics}
        await move_positions(connection, self.owner, ends)
        self._state.mark_written({}, list(pending))

    async def _write_points(self, connection: Connection, entries: Sequence[Entry]) -> None:
        messages = []
        for entry in entries:
            try:
                messages.append(decode_points(entry))
            except UndecodableError:  # it went to the dead letters
                continue
        if messages:
            series, points = rows_of(messages)
            await upsert(connection, TableWrite(SERIES, list(series)))
            await copy_new(connection, POINTS, points)

    async def close(self) -> None:
        """Ends its reader."""
        if self._reader is not None:
            await self._reader.close()
