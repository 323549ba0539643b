"""Writes an owner's rows and their positions in one transaction, together with the snapshots that are due."""

from collections.abc import Callable, Mapping, Sequence

from trackside.domain.rows.table import Table, TableWrite
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.log import TopicPartition
from trackside.eventlog.log_id import named_log
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.projections.database.failed_transactions import OnWaiting, count_failures
from trackside.projections.database.notifications import notify
from trackside.projections.database.positions import (
    RewoundError,
    ensure_positions,
    lock_positions,
    move_positions,
    read_positions,
)
from trackside.projections.database.postgres import Connection, Database
from trackside.projections.database.upserts import upsert
from trackside.projections.tables.owners import SUMMARY_INDEXER, Owner
from trackside.projections.writing.forgetting import forget_rows
from trackside.projections.writing.migrate import prepare_schema
from trackside.projections.writing.pending import PendingChanges
from trackside.projections.writing.row_changes import RowChanges
from trackside.projections.writing.snapshots import Checkpoint, write_checkpoint
from trackside.telemetry.metrics import counter, gauge, histogram

Positions = Mapping[TopicPartition, int]


class RowWriter:
    """Writes the rows of one owner, and measures that; waits for Postgres without limit."""

    def __init__(
        self,
        owner: Owner,
        service: ServiceContext,
        opened: Database,
        on_waiting: OnWaiting,
        on_written: Callable[[], None],
    ) -> None:
        self.owner = owner
        self.on_waiting = on_waiting
        self._log, self._topics = service.log, service.topics
        self._database = opened
        self.on_retry = count_failures(owner.name, on_waiting)
        self._on_written = on_written
        self.changes: RowChanges | None = None
        """What is noted and not taken yet, for the measured lag."""
        self._writing_ms: int | None = None
        gauge("trackside.projections.lag.seconds").labels(projection=owner.name).set_function(self._lag_s)

    def partitions(self) -> list[TopicPartition]:
        """Lists the partitions that the rows come from; metrics are read and written by others."""
        found = self.owner.topics(self._topics)
        if self.owner.name == SUMMARY_INDEXER:
            found = (self._topics.dead_letters,)
        return [(topic.name, partition) for topic in found for partition in range(topic.partitions)]

    async def prepare(self) -> dict[TopicPartition, int]:
        """Creates missing tables; returns the next offset to write, by partition.

        Raises NewerSchemaError, AnotherLogError, and TransientError if the log does not answer.
        """
        partitions = self.partitions()
        log = await named_log(self._log, self._topics, *self.owner.topics(self._topics))

        async def prepared(connection: Connection) -> dict[TopicPartition, int]:
            await prepare_schema(connection, self._database.schema, log)
            await ensure_positions(connection, self.owner.name, partitions)
            found = await read_positions(connection, self.owner.name)
            return {topic_partition: found[topic_partition] for topic_partition in partitions}

        return await self._database.commit_with_retries(prepared, self.on_retry)

    async def positions(self) -> dict[TopicPartition, int]:
        """Returns the next offset to write, by partition. Raises SchemaMissingError."""

        async def known(connection: Connection) -> dict[TopicPartition, int]:
            found = await read_positions(connection, self.owner.name)
            return {place: found.get(place, 0) for place in self.partitions()}

        return await self._database.commit_with_retries(known, self.on_retry)

    async def write(
        self,
        taken: Mapping[TopicPartition, PendingChanges],
        expected: Positions,
        checkpoints: Sequence[Checkpoint] = (),
    ) -> dict[TopicPartition, int]:
        """Writes what was taken of an owner's changes; returns the positions of the rows before that.

        Nothing is written of partitions whose rows another process has written as far; the checkpoints that
        are not written are given back. Raises RewoundError if rows are older than `expected`.
        """
        self._writing_ms = min((pending.oldest_ms for pending in taken.values()), default=None)
        writes = {place: pending.writes() for place, pending in taken.items()}
        owner, events = self.owner.name, self._topics.events.name
        lag = gauge("trackside.projections.lag.records").labels(projection=owner)
        lag.set(sum(pending.end - pending.base for pending in taken.values()))

        async def work(connection: Connection) -> tuple[dict[TopicPartition, int], set[int]]:
            found = await lock_positions(connection, owner, {topic for topic, _ in expected})
            for tp, base in expected.items():
                if found.get(tp, -1) < base:
                    raise RewoundError(f"{tp[0]}-{tp[1]}: expected {base}, found {found.get(tp)}")
            unwritten = {tp: pending.end for tp, pending in taken.items() if found[tp] < pending.end}
            forgotten = {tp: taken[tp].forgotten for tp in unwritten if taken[tp].forgotten}
            if forgotten:
                await forget_rows(connection, self.owner, forgotten)
            for write in _merged([write for tp in unwritten for write in writes[tp]]):
                await upsert(connection, write)
            if unwritten:
                await move_positions(connection, owner, unwritten)
                changed = set[str]().union(*(taken[tp].streams for tp in unwritten))
                await notify(connection, self._database.schema, owner, unwritten, changed)
            newest = [made for made in checkpoints if found[events, made.partition] <= made.position]
            for made in newest:
                await write_checkpoint(connection, made)
            return found, {made.partition for made in newest}

        began, saved = monotonic_s(), set[int]()
        try:
            found, saved = await self._database.commit_with_retries(work, self.on_retry)
        finally:
            for made in checkpoints:
                if made.partition not in saved:
                    made.give_back()
        took_s = monotonic_s() - began
        histogram("trackside.projections.transaction.seconds").labels(projection=owner).observe(took_s)
        for write in (write for each in writes.values() for write in each):
            rows = counter("trackside.projections.written.rows").labels(projection=write.table.name)
            rows.inc(len(write.rows))
        lag.set(0)
        self._writing_ms = None
        self._on_written()
        return found

    def _lag_s(self) -> float:
        """Returns the age of the oldest record whose rows are not written, s; it grows without Postgres."""
        noted = () if self.changes is None else self.changes.pending.values()
        oldest = [pending.oldest_ms for pending in noted]
        if self._writing_ms is not None:
            oldest.append(self._writing_ms)
        return max(0.0, (now_ms() - min(oldest)) / 1000) if oldest else 0.0


def _merged(writes: list[TableWrite]) -> list[TableWrite]:
    """Joins the writes of several partitions, one per table: their keys differ."""
    found: dict[str, tuple[Table, TableWrite]] = {}
    for write in writes:
        joined = found.setdefault(write.table.name, (write.table, TableWrite(write.table)))[1]
        joined.rows += write.rows
        joined.groups += write.groups
    return [write for _, write in found.values()]
