"""Snapshots of streams: written in the transaction of the rows, so that both are at the same position."""

import gc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

from pydantic import ValidationError

from trackside.aggregates.registry import AGGREGATES, CODEC
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.commands import RULES
from trackside.domain.folding.streams import Streams, load, pack
from trackside.domain.streams.stream import Stream
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.garbage import give_back_freed_memory
from trackside.eventlog.log_id import NamedLog
from trackside.eventlog.reactor.recovery import Recovered
from trackside.projections.database.log_identity import check_log
from trackside.projections.database.postgres import (
    LIVE_SCHEMA,
    Connection,
    PostgresGoneError,
    SchemaMissingError,
    database,
    sql,
)
from trackside.telemetry.logs import logger

FOLD_VERSION = 11
"""Raise it, and `definitions.GENERATIONS` with it, when the fold computes another state from the same log."""
STATE_SHAPE = "afc62ef87615"
"""The digest of the schema of the state. A test has the new one: to make it takes half a second."""
SNAPSHOT_TABLES = ("snapshots", "snapshot_positions")
BYTES_PER_RECORD = 1_000
"""A partition is saved again after as many records as its snapshots had bytes, divided by this."""
WORTH_FREEZING = 1_000_000
"""With at least so many characters of states, they are frozen: hidden from the garbage collector."""
log = logger("trackside.projections")


def fold_name() -> str:
    """Returns the name of the fold of this release: rules, version, and digests of state and events."""
    return f"{RULES}.{FOLD_VERSION}.{events_name()}.{STATE_SHAPE}"


def events_name() -> str:
    """Returns a digest of the types of events that this release knows.

    One that knows more folds the log from its start: streams that were parked by such an event go on.
    """
    known = sorted(kind.wire_type() for kind in CODEC.messages if issubclass(kind, Event))
    return sha256("\n".join(known).encode()).hexdigest()[:8]


@dataclass(slots=True)
class Checkpoint:
    """Snapshots of the streams of one partition that changed, and how far it is folded."""

    partition: int
    position: int
    rows: list[tuple[str, int, int, str, bool, str]] = field(default_factory=list)
    give_back: Callable[[], None] = lambda: None
    """Gets its streams saved with the next checkpoint: to be called if this one is not written."""


def checkpoint(partition: int, position: int, streams: Iterable[Stream]) -> Checkpoint:
    """Serialises streams as they are at a position of their partition."""
    made, name = Checkpoint(partition, position), fold_name()
    for stream in streams:
        state = pack(stream).decode()
        made.rows.append((stream.stream_id, partition, stream.last_offset, name, stream.closed, state))
    return made


class UnsavedStreams:
    """The streams that changed since their last snapshot, by partition of the events topic."""

    def __init__(self) -> None:
        self._streams: dict[int, set[str]] = {}
        self._records: dict[int, int] = {}
        self._changed_s: dict[int, float] = {}
        self._bytes: dict[str, int] = {}
        self._hurried: set[int] = set()

    def note(self, partition: int, stream_id: str) -> None:
        """Notes a record of a stream."""
        self._streams.setdefault(partition, set()).add(stream_id)
        self._records[partition] = self._records.get(partition, 0) + 1
        self._changed_s[partition] = monotonic_s()

    def hurry(self, partition: int) -> None:
        """Gets a partition saved with its next rows: a snapshot has what may be kept no longer."""
        self._hurried.add(partition)

    def due(self, quiet_s: float, checkpoint_records: int) -> list[int]:
        """Lists the partitions to save: those with many changes, or with none for `quiet_s` seconds."""
        now_s = monotonic_s()
        return [
            partition
            for partition in self._streams
            if partition in self._hurried
            or now_s - self._changed_s[partition] >= quiet_s
            or self._has_many_changes(partition, checkpoint_records)
        ]

    def _has_many_changes(self, partition: int, checkpoint_records: int) -> bool:
        """Returns whether a snapshot is worth its cost: large streams are saved less often."""
        records = self._records[partition]
        if records < checkpoint_records:
            return False
        size = sum(self._bytes.get(name, 0) for name in self._streams[partition])
        return records * BYTES_PER_RECORD >= size

    def take(self, partition: int, position: int, streams: Streams) -> Checkpoint:
        """Serialises the changed streams of a partition as they are before the offset `position`."""
        names = sorted(self._streams.pop(partition))
        found = (stream for name in names if (stream := streams.find(name)) is not None)
        made = checkpoint(partition, position, found)
        is_hurried = partition in self._hurried
        made.give_back = partial(self._give_back, partition, names, self._records[partition], is_hurried)
        self._records[partition] = 0
        self._hurried.discard(partition)
        self._bytes.update({row[0]: len(row[-1]) for row in made.rows})
        return made

    def _give_back(self, partition: int, names: list[str], records: int, is_hurried: bool) -> None:
        self._streams.setdefault(partition, set()).update(names)
        self._records[partition] += records
        if is_hurried:
            self._hurried.add(partition)


async def write_checkpoint(connection: Connection, made: Checkpoint) -> None:
    """Writes a checkpoint, in the transaction of the rows up to its position."""
    await connection.executemany(sql("queries", "put_snapshot"), made.rows)
    await connection.execute(
        sql("queries", "put_snapshot_position"), made.partition, made.position, fold_name()
    )


async def load_snapshots(connection: Connection) -> Recovered | None:
    """Returns all snapshots; None if one is of another fold, unreadable or missing.

    To be called in a repeatable-read transaction.
    """
    positions = await connection.fetch(sql("queries", "snapshot_positions"))
    snapshots = await connection.fetch(sql("queries", "snapshots"))
    folds = {row["fold"] for row in (*positions, *snapshots)}
    if not positions or folds != {fold_name()}:
        return None
    if await connection.fetchval(sql("queries", "streams_without_snapshot")):
        return None
    try:
        streams = _loaded([row["state"] for row in snapshots])
    except ValidationError:
        return None
    return Recovered(streams, {row["partition"]: row["position"] for row in positions})


def _loaded(states: list[str]) -> list[Stream]:
    """Reads states while the garbage collector is off, and hides them from it afterwards.

    They hold no cycles; each collection would take as long as reading them.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        found = [load(state, AGGREGATES) for state in states]
        if sum(map(len, states)) >= WORTH_FREEZING:
            gc.freeze()
        return found
    finally:
        if was_on:
            gc.enable()


class PostgresSnapshots:
    """The SnapshotStore in Postgres: without Postgres there are no snapshots."""

    def __init__(self, dsn: str, log: NamedLog | None = None) -> None:
        self._dsn = dsn
        self._log = log

    async def load(self) -> Recovered | None:
        """Returns the newest snapshots; None if they are missing or unusable, or if Postgres is down.

        Raises AnotherLogError if they are not of the log that it was given.
        """

        async def work(connection: Connection) -> Recovered | None:
            if self._log is not None:
                await check_log(connection, LIVE_SCHEMA, self._log)
            return await load_snapshots(connection)

        async with database(self._dsn, LIVE_SCHEMA) as opened:
            try:
                recovered = await opened.transaction(work, repeatable_read=True)
            except (PostgresGoneError, SchemaMissingError) as error:
                log.info("no snapshots, folding the whole log", reason=str(error))
                return None
        give_back_freed_memory()  # the texts of the states, and what the parser had made of them
        return recovered
