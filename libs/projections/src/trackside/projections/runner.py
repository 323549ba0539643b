"""Runs the read models of one owner: folds the log, and writes rows and positions in one transaction."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from trackside.contracts.topics import Topics
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Log, Reader, TopicPartition
from trackside.projections.folding import Folding
from trackside.projections.migrate import migrate
from trackside.projections.owners import OWNERS, SUMMARY_INDEXER, Owner
from trackside.projections.positions import (
    RewoundError,
    ensure_positions,
    lock_positions,
    move_positions,
    read_positions,
)
from trackside.projections.postgres import (
    LIVE_SCHEMA,
    Connection,
    Database,
    SchemaMissingError,
    database,
    upsert,
)
from trackside.projections.projection import Table, Write
from trackside.projections.snapshots import Checkpoint, checkpoint, load_snapshots, write_checkpoint
from trackside.telemetry.logs import logger
from trackside.telemetry.metrics import counter, gauge, histogram

BATCH_RECORDS = 2_000
LONGEST_WAIT_S = 1.0
log = logger("trackside.projections")
Waiting = Callable[[str | None], None]


@dataclass(frozen=True, slots=True)
class Pace:
    """How often is written, in s: `gather` for reading, `between` transactions, `quiet` before a snapshot."""

    gather_s: float = 0.2
    between_s: float = 0.05
    quiet_s: float = 5.0
    checkpoint_records: int = 2_000


async def run_projection(
    owner: str,
    log: Log,
    topics: Topics,
    dsn: str,
    *,
    stop: asyncio.Event,
    waiting: Waiting = lambda reason: None,
    pace: Pace = Pace(),
    written: Callable[[], None] = lambda: None,
) -> None:
    """Keeps the read models of an owner at the end of the log until `stop` is set.

    Waits for Kafka and for Postgres as long as it takes; `waiting` is told the reason, and None when it
    goes on; `written` is called behind every transaction. Raises UnknownMessageError, TombstoneError and
    UnsupportedRulesError (a log that this release can't read), OffsetGoneError and NewerSchemaError: then
    nothing more is written.
    """
    async with database(dsn, LIVE_SCHEMA) as opened:
        runner = Runner(OWNERS[owner], log, topics, opened, waiting, pace, written)
        running = asyncio.create_task(runner.run(), name=f"projections-{owner}")
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
        finally:
            running.cancel()
            stopping.cancel()
            await asyncio.gather(running, stopping, return_exceptions=True)


class Runner:
    """One owner's runner: recovers, then reads, folds and writes until it is cancelled."""

    def __init__(
        self,
        owner: Owner,
        log: Log,
        topics: Topics,
        opened: Database,
        waiting: Waiting,
        pace: Pace,
        written: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._log = log
        self._topics = topics
        self._database = opened
        self._waiting = waiting
        self._pace = pace
        self._written = written

    async def run(self) -> None:
        """Runs for ever; begins again whenever the read models are older than the state, or gone."""
        while True:
            try:
                folding = await self._recovered()
                reader = self._log.reader(await self._starts(folding), self._pace.gather_s)
                try:
                    await self._follow(folding, reader)
                finally:
                    await reader.close()
            except (RewoundError, SchemaMissingError) as error:
                log.warning("read models are behind their state", owner=self._owner.name, reason=str(error))
            except TransientError as error:
                self._waiting(f"waiting for the log: {error}")
                await asyncio.sleep(self._pace.between_s)

    async def _recovered(self) -> Folding:
        """Gives the state of the snapshots, with the positions of the rows; creates what is missing."""
        places = self._places()

        async def prepared(connection: Connection) -> dict[TopicPartition, int]:
            await migrate(connection, self._database.schema)
            await ensure_positions(connection, self._owner.name, places)
            found = await read_positions(connection, self._owner.name)
            return {place: found[place] for place in places}

        written = await self._database.persist(prepared, self._waiting)
        folding = Folding(self._owner, self._topics, written)
        if self._owner.of_streams:
            recovered = await self._database.persist(load_snapshots, self._waiting, one_moment=True)
            if recovered is not None:
                folding.adopt(recovered)
        return folding

    async def _starts(self, folding: Folding) -> dict[TopicPartition, int]:
        """Gives the offsets to read from; dead letters are not kept for ever, so old ones may be gone."""
        starts, letters = folding.starts(), self._topics.dead_letters.name
        if any(topic == letters for topic, _ in starts):
            for partition, begin in (await self._log.beginnings(letters)).items():
                starts[letters, partition] = max(begin, starts.get((letters, partition), 0))
        return starts

    def _places(self) -> list[TopicPartition]:
        """Lists the partitions read; the metrics have a reader of their own in the summary indexer."""
        found = self._owner.topics(self._topics)
        if self._owner.name == SUMMARY_INDEXER:
            found = (self._topics.dead_letters,)
        return [(topic.name, partition) for topic in found for partition in range(topic.partitions)]

    async def _follow(self, folding: Folding, reader: Reader) -> None:
        last_change: dict[int, float] = {}
        quiet_since = monotonic_s()
        while True:
            wait_s = min(LONGEST_WAIT_S, self._pace.quiet_s)
            entries = await reader.read(wait_s, BATCH_RECORDS)
            self._waiting(None)
            began = monotonic_s()
            folding.fold(entries)
            events = self._topics.events.name
            last_change.update({e.partition: began for e in entries if e.topic == events})
            due = self._due(folding, last_change, began)
            if folding.pending or due:
                await self._write(folding, due)
                await asyncio.sleep(max(0.0, self._pace.between_s - (monotonic_s() - began)))
            elif entries:
                folding.shrink_closed()
                await asyncio.sleep(0)
            elif began - quiet_since >= self._pace.quiet_s:
                await self._write(folding, [])
            if entries or began - quiet_since >= self._pace.quiet_s:
                quiet_since = began

    def _due(self, folding: Folding, last_change: dict[int, float], now_s: float) -> list[int]:
        """Lists the partitions to snapshot: much has happened in them, or nothing more for a while."""
        if not self._owner.keeps_snapshots:
            return []
        events = self._topics.events.name
        return [
            partition
            for partition, names in folding.unsaved.items()
            if names
            and folding.folded[events, partition] >= folding.written[events, partition]
            and (
                self._much(folding, partition)
                or now_s - last_change.get(partition, now_s) >= self._pace.quiet_s
            )
        ]

    def _much(self, folding: Folding, partition: int) -> bool:
        """Says whether a snapshot is worth its price: streams of many tasks are big, and wait for longer."""
        counted = folding.counted[partition]
        if counted < self._pace.checkpoint_records:
            return False
        streams = (folding.streams.by_id.get(name) for name in folding.unsaved[partition])
        return counted >= sum(len(stream.tasks) for stream in streams if stream is not None)

    async def _write(self, folding: Folding, due: list[int]) -> None:
        """Writes what is pending, and the snapshots that are due, in one transaction."""
        writes = {place: pending.writes() for place, pending in folding.pending.items()}
        folding.shrink_closed()
        checkpoints = [_checkpoint(folding, partition) for partition in due]
        owner, events = self._owner.name, self._topics.events.name
        waiting_records = sum(pending.end - pending.base for pending in folding.pending.values())
        gauge("trackside.projections.lag.records").labels(projection=owner).set(waiting_records)

        async def work(connection: Connection) -> dict[TopicPartition, int]:
            found = await lock_positions(connection, owner, {topic for topic, _ in folding.written})
            for place, base in folding.written.items():
                if found.get(place, -1) < base:
                    raise RewoundError(f"{place[0]}-{place[1]}: expected {base}, found {found.get(place)}")
            mine = {
                place: pending.end for place, pending in folding.pending.items() if found[place] < pending.end
            }
            for write in _merged([write for place in mine for write in writes[place]]):
                await upsert(connection, write)
            if mine:
                await move_positions(connection, owner, mine)
            for taken in checkpoints:
                if found[events, taken.partition] <= taken.position:
                    await write_checkpoint(connection, taken)
            return found

        began = monotonic_s()
        found = await self._database.persist(work, self._waiting)
        histogram("trackside.projections.transaction.seconds").labels(projection=owner).observe(
            monotonic_s() - began
        )
        for write in (write for of_place in writes.values() for write in of_place):
            rows = counter("trackside.projections.written.rows").labels(projection=write.table.name)
            rows.inc(len(write.rows))
        gauge("trackside.projections.lag.records").labels(projection=owner).set(0)
        folding.moved(found, list(folding.pending))
        for partition in due:
            folding.unsaved[partition].clear()
            folding.counted[partition] = 0
        self._written()


def _checkpoint(folding: Folding, partition: int) -> Checkpoint:
    names = folding.unsaved[partition]
    streams = (stream for name in sorted(names) if (stream := folding.streams.find(name)) is not None)
    return checkpoint(partition, folding.folded[folding.topics.events.name, partition], streams)


def _merged(writes: list[Write]) -> list[Write]:
    """Joins the writes of several partitions, one a table: their keys differ."""
    found: dict[str, tuple[Table, Write]] = {}
    for write in writes:
        joined = found.setdefault(write.table.name, (write.table, Write(write.table)))[1]
        joined.rows += write.rows
        joined.groups += write.groups
    return [write for _, write in found.values()]
