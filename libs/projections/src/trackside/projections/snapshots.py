"""Snapshots of streams: written with the rows, so that they never say more or less than the rows do."""

import gc
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256

from pydantic import ValidationError

from trackside.contracts.commands import RULES
from trackside.domain.stream import Stream
from trackside.domain.streams import STATE, load, pack
from trackside.eventlog.recovery import Recovered
from trackside.projections.postgres import (
    LIVE_SCHEMA,
    Connection,
    PostgresGoneError,
    SchemaMissingError,
    database,
    sql,
)
from trackside.telemetry.logs import logger

FOLD_VERSION = 2
"""To be raised, and `definitions.GENERATIONS` with it, when the fold gives another state of the same log."""
SNAPSHOT_TABLES = ("snapshots", "snapshot_positions")
WORTH_FREEZING = 1_000_000
"""From so many characters of states on they are kept from the collector of cycles."""
log = logger("trackside.projections")


@cache
def fold_name() -> str:
    """Names the fold that a snapshot is of: rules, version and the shape of the state."""
    shape = sha256(json.dumps(STATE.json_schema(), sort_keys=True).encode()).hexdigest()
    return f"{RULES}.{FOLD_VERSION}.{shape[:12]}"


@dataclass(slots=True)
class Checkpoint:
    """Snapshots of the streams of one partition that changed, and how far it is folded."""

    partition: int
    position: int
    rows: list[tuple[str, int, int, str, bool, str]] = field(default_factory=list)


def checkpoint(partition: int, position: int, streams: Iterable[Stream]) -> Checkpoint:
    """Dumps streams as they are at a position of their partition."""
    taken = Checkpoint(partition, position)
    for stream in streams:
        state = pack(stream).decode()
        taken.rows.append(
            (stream.stream_id, partition, stream.last_offset, fold_name(), stream.closed, state)
        )
    return taken


async def write_checkpoint(connection: Connection, taken: Checkpoint) -> None:
    """Writes a checkpoint; belongs in the transaction of the rows up to its position."""
    await connection.executemany(sql("queries", "put_snapshot"), taken.rows)
    await connection.execute(
        sql("queries", "put_snapshot_position"), taken.partition, taken.position, fold_name()
    )


async def load_snapshots(connection: Connection) -> Recovered | None:
    """Gives all snapshots; None if one is of another fold, unreadable or missing.

    To be called in a transaction that sees one moment.
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
    """Reads states with the collector of cycles at rest, and keeps it from going through them ever after.

    There are no cycles in them; it would take as long as the reading, again and again.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        found = [load(state) for state in states]
        if sum(map(len, states)) >= WORTH_FREEZING:
            gc.freeze()
        return found
    finally:
        if was_on:
            gc.enable()


class PostgresSnapshots:
    """The SnapshotStore in Postgres: without Postgres there are no snapshots."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def load(self) -> Recovered | None:
        """Gives the newest snapshots, None if there are none to trust or no Postgres."""
        async with database(self._dsn, LIVE_SCHEMA) as opened:
            try:
                return await opened.transaction(load_snapshots, one_moment=True)
            except (PostgresGoneError, SchemaMissingError) as error:
                log.info("no snapshots, folding the whole log", reason=str(error))
                return None
