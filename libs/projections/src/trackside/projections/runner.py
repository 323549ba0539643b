"""Runs the read models of one owner: folds the log, and writes rows and positions in one transaction."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from trackside.contracts.topics import Topics
from trackside.domain.table import Table, TableWrite
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Log, Reader, TopicPartition
from trackside.eventlog.service_context import ServiceContext
from trackside.projections.failed_transactions import OnWaiting, count_failures
from trackside.projections.log_identity import claim_schema, log_id_of
from trackside.projections.migrate import migrate
from trackside.projections.notifications import notify
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
)
from trackside.projections.projection_state import ProjectionState
from trackside.projections.snapshots import Checkpoint, checkpoint, load_snapshots, write_checkpoint
from trackside.projections.upserts import upsert
from trackside.telemetry.logs import logger
from trackside.telemetry.metrics import counter, gauge, histogram

BATCH_RECORDS = 2_000
MAX_WAIT_S = 1.0
BYTES_PER_RECORD = 1_000
"""A partition is saved again after as many records as its snapshots had bytes, divided by this."""
log = logger("trackside.projections")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often rows are written; seconds to gather records, between transactions, idle before a snapshot."""

    gather_s: float = 0.15
    between_s: float = 0.05
    quiet_s: float = 5.0
    checkpoint_records: int = 2_000


async def run_projection(
    owner: str,
    service: ServiceContext,
    *,
    on_waiting: OnWaiting = lambda reason: None,
    pace: Pace = Pace(),
    on_written: Callable[[], None] = lambda: None,
) -> None:
    """Keeps the read models of an owner at the end of the log until the service stops.

    Waits for Kafka and Postgres without limit; calls `on_waiting` with the reason, and with None when it
    continues; calls `on_written` after every transaction. Raises UnknownMessageError, TombstoneError and
    UnsupportedRulesError (a log that this release can't read), OffsetGoneError, NewerSchemaError
    and AnotherLogError, and writes nothing more.
    """
    async with database(service.settings.postgres_dsn, LIVE_SCHEMA) as opened:
        runner = Runner(OWNERS[owner], service.log, service.topics, opened, on_waiting, pace, on_written)
        running = asyncio.create_task(runner.run(), name=f"projections-{owner}")
        stopping = asyncio.create_task(service.stop.wait())
        try:
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
        finally:
            running.cancel()
            stopping.cancel()
            await asyncio.gather(running, stopping, return_exceptions=True)


class Runner:
    """Runs one owner's read models: recovers, then reads, folds and writes until it is cancelled."""

    def __init__(
        self,
        owner: Owner,
        log: Log,
        topics: Topics,
        opened: Database,
        on_waiting: OnWaiting,
        pace: Pace,
        on_written: Callable[[], None],
    ) -> None:
        self._owner = owner
        self._log = log
        self._topics = topics
        self._database = opened
        self._on_waiting = on_waiting
        self._on_retry = count_failures(owner.name, on_waiting)
        self._oldest_ms: int | None = None
        gauge("trackside.projections.lag.seconds").labels(projection=owner.name).set_function(self._lag_s)
        self._pace = pace
        self._on_written = on_written

    async def run(self) -> None:
        """Runs until cancelled; starts over when the read models are older than the state, or missing."""
        while True:
            try:
                state = await self._recovered()
                reader = self._log.reader(await self._starts(state), self._pace.gather_s)
                try:
                    await self._follow(state, reader)
                finally:
                    await reader.close()
            except (RewoundError, SchemaMissingError) as error:
                reason = str(error)
                log.warning("read models are older than the state", owner=self._owner.name, reason=reason)
            except TransientError as error:
                self._on_waiting(f"waiting for the log: {error}")
                await asyncio.sleep(self._pace.between_s)

    async def _recovered(self) -> ProjectionState:
        """Returns the state of the snapshots, with the positions of the rows; creates missing tables."""
        partitions = self._partitions()
        log_id = await log_id_of(self._log, self._topics)

        async def prepared(connection: Connection) -> dict[TopicPartition, int]:
            await migrate(connection, self._database.schema)
            await claim_schema(connection, self._database.schema, log_id)
            await ensure_positions(connection, self._owner.name, partitions)
            found = await read_positions(connection, self._owner.name)
            return {topic_partition: found[topic_partition] for topic_partition in partitions}

        written = await self._database.commit_with_retries(prepared, self._on_retry)
        state = ProjectionState(self._owner, self._topics, written)
        if self._owner.of_streams:
            recovered = await self._database.commit_with_retries(
                load_snapshots, self._on_retry, repeatable_read=True
            )
            if recovered is not None:
                state.adopt(recovered)
        return state

    async def _starts(self, state: ProjectionState) -> dict[TopicPartition, int]:
        """Returns the offsets to read from; dead letters expire, so old ones may be gone."""
        starts, letters = state.starts(), self._topics.dead_letters.name
        if any(topic == letters for topic, _ in starts):
            for partition, begin in (await self._log.beginnings(letters)).items():
                starts[letters, partition] = max(begin, starts.get((letters, partition), 0))
        return starts

    def _partitions(self) -> list[TopicPartition]:
        """Lists the partitions read; the metrics have a reader of their own in the summary indexer."""
        found = self._owner.topics(self._topics)
        if self._owner.name == SUMMARY_INDEXER:
            found = (self._topics.dead_letters,)
        return [(topic.name, partition) for topic in found for partition in range(topic.partitions)]

    async def _follow(self, state: ProjectionState, reader: Reader) -> None:
        last_change: dict[int, float] = {}
        quiet_since = monotonic_s()
        while True:
            wait_s = min(MAX_WAIT_S, self._pace.quiet_s)
            entries = await reader.read(wait_s, BATCH_RECORDS)
            self._on_waiting(None)
            began = monotonic_s()
            state.fold(entries)
            if entries and state.pending:
                self._oldest_ms = min(entry.append_time_ms for entry in entries)
            events = self._topics.events.name
            last_change.update({e.partition: began for e in entries if e.topic == events})
            due = self._due(state, last_change, began)
            if state.pending or due:
                await self._write(state, due)
                await asyncio.sleep(max(0.0, self._pace.between_s - (monotonic_s() - began)))
            elif entries:
                state.shrink()
                await asyncio.sleep(0)
            elif began - quiet_since >= self._pace.quiet_s:
                await self._write(state, [])
            if entries or began - quiet_since >= self._pace.quiet_s:
                quiet_since = began

    def _lag_s(self) -> float:
        """Returns the age of the oldest record that is not written, s; it grows while Postgres is away."""
        return 0.0 if self._oldest_ms is None else max(0.0, (now_ms() - self._oldest_ms) / 1000)

    def _due(self, state: ProjectionState, last_change: dict[int, float], now_s: float) -> list[int]:
        """Lists the partitions to snapshot: those with many changes, or with none for a while."""
        if not self._owner.keeps_snapshots:
            return []
        events = self._topics.events.name
        return [
            partition
            for partition, names in state.unsaved_streams.items()
            if names
            and state.folded[events, partition] >= state.written[events, partition]
            and (
                self._has_many_changes(state, partition)
                or now_s - last_change.get(partition, now_s) >= self._pace.quiet_s
            )
        ]

    def _has_many_changes(self, state: ProjectionState, partition: int) -> bool:
        """Returns whether a snapshot is worth its cost: large streams are saved less often."""
        records = state.unsaved_records[partition]
        if records < self._pace.checkpoint_records:
            return False
        size = sum(state.snapshot_bytes.get(name, 0) for name in state.unsaved_streams[partition])
        return records * BYTES_PER_RECORD >= size

    async def _write(self, state: ProjectionState, due: list[int]) -> None:
        """Writes pending rows, and the snapshots that are due, in one transaction."""
        writes = {tp: pending.writes() for tp, pending in state.pending.items()}
        state.shrink()
        checkpoints = [_checkpoint(state, partition) for partition in due]
        owner, events = self._owner.name, self._topics.events.name
        waiting_records = sum(pending.end - pending.base for pending in state.pending.values())
        gauge("trackside.projections.lag.records").labels(projection=owner).set(waiting_records)

        async def work(connection: Connection) -> dict[TopicPartition, int]:
            found = await lock_positions(connection, owner, {topic for topic, _ in state.written})
            for tp, base in state.written.items():
                if found.get(tp, -1) < base:
                    raise RewoundError(f"{tp[0]}-{tp[1]}: expected {base}, found {found.get(tp)}")
            unwritten = {tp: pending.end for tp, pending in state.pending.items() if found[tp] < pending.end}
            for write in _merged([write for tp in unwritten for write in writes[tp]]):
                await upsert(connection, write)
            if unwritten:
                await move_positions(connection, owner, unwritten)
                changed = set[str]().union(*(state.pending[tp].streams for tp in unwritten))
                await notify(connection, self._database.schema, owner, unwritten, changed)
            for made in checkpoints:
                if found[events, made.partition] <= made.position:
                    await write_checkpoint(connection, made)
            return found

        began = monotonic_s()
        found = await self._database.commit_with_retries(work, self._on_retry)
        histogram("trackside.projections.transaction.seconds").labels(projection=owner).observe(
            monotonic_s() - began
        )
        for write in (write for each in writes.values() for write in each):
            rows = counter("trackside.projections.written.rows").labels(projection=write.table.name)
            rows.inc(len(write.rows))
        gauge("trackside.projections.lag.records").labels(projection=owner).set(0)
        self._oldest_ms = None
        state.mark_written(found, list(state.pending))
        for partition in due:
            state.unsaved_streams[partition].clear()
            state.unsaved_records[partition] = 0
        for made in checkpoints:
            state.snapshot_bytes.update({row[0]: len(row[-1]) for row in made.rows})
        self._on_written()


def _checkpoint(state: ProjectionState, partition: int) -> Checkpoint:
    names = state.unsaved_streams[partition]
    streams = (stream for name in sorted(names) if (stream := state.streams.find(name)) is not None)
    return checkpoint(partition, state.folded[state.topics.events.name, partition], streams)


def _merged(writes: list[TableWrite]) -> list[TableWrite]:
    """Joins the writes of several partitions, one per table: their keys differ."""
    found: dict[str, tuple[Table, TableWrite]] = {}
    for write in writes:
        joined = found.setdefault(write.table.name, (write.table, TableWrite(write.table)))[1]
        joined.rows += write.rows
        joined.groups += write.groups
    return [write for _, write in found.values()]
