"""Notifications of changed rows: sent in the transaction that writes them, received when it is committed."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from trackside.eventlog.log import TopicPartition
from trackside.projections.database.failed_transactions import OnWaiting
from trackside.projections.database.postgres import (
    FIRST_PAUSE_S,
    LIVE_SCHEMA,
    LONGEST_PAUSE_S,
    Connection,
    PostgresGoneError,
    connect,
    translated_errors,
)

CHANNEL = "trackside_changes"
MAX_STREAMS = 100
"""How many streams a notification names; if more have changed, it names none, which means any."""
MAX_STREAMS_WAITING = 1_000
"""How many streams are remembered for a reader that is slower than the notifications."""
MAX_BYTES = 7_999
"""Postgres refuses a longer payload."""
PING_EVERY_S, PING_LIMIT_S = 10.0, 5.0

OwnedPosition = tuple[str, str, int]
"""Owner, topic and partition."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What has changed in the read models since the last time.

    `positions` has the next offset by owner, topic and partition: the rows include the log up to there.
    `streams` are those whose rows have changed; None: any of them may have, so read everything again.
    """

    owners: frozenset[str] = frozenset()
    positions: Mapping[OwnedPosition, int] = field(default_factory=dict)
    streams: frozenset[str] | None = None

    def followed_by(self, later: "Changes") -> "Changes":
        """Returns these changes and later ones as one; more than 1,000 streams become any."""
        streams = None
        if self.streams is not None and later.streams is not None:
            streams = self.streams | later.streams
            if len(streams) > MAX_STREAMS_WAITING:
                streams = None
        return Changes(self.owners | later.owners, {**self.positions, **later.positions}, streams)


async def notify(
    connection: Connection,
    schema: str,
    owner: str,
    positions: Mapping[TopicPartition, int],
    streams: Collection[str] | None,
) -> None:
    """Gets the listeners notified when this transaction is committed: one message, however many rows.

    `positions` are those that the transaction moves, `streams` those whose rows it changes, None for any.
    """
    payload = notification(schema, owner, positions, streams)
    await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)


def notification(
    schema: str, owner: str, positions: Mapping[TopicPartition, int], streams: Collection[str] | None
) -> str:
    """Returns the payload: JSON of at most 7,999 bytes; streams, then positions, are left out beyond that."""
    content: dict[str, Any] = {
        "schema": schema,
        "owner": owner,
        "positions": {f"{topic}-{partition}": end for (topic, partition), end in positions.items()},
        "streams": None if streams is None or len(streams) > MAX_STREAMS else sorted(streams),
    }
    text = _compact(content)
    for name, left_out in (("streams", None), ("positions", {})):
        if len(text.encode()) > MAX_BYTES:
            content[name] = left_out
            text = _compact(content)
    return text


def _compact(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def changes_of(payload: str, schema: str) -> Changes | None:
    """Returns the changes of a notification, or None if it is of another schema.

    Also None for one that is not of ours: Postgres lets each of its users notify.
    """
    try:
        content = json.loads(payload)
        if content["schema"] != schema:
            return None
        owner, positions = str(content["owner"]), {}
        for place, end in content["positions"].items():
            topic, _, partition = place.rpartition("-")
            positions[owner, topic, int(partition)] = int(end)
        streams = None if content["streams"] is None else frozenset(map(str, content["streams"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return Changes(frozenset((owner,)), positions, streams)


async def follow_changes(
    dsn: str, *, schema: str = LIVE_SCHEMA, on_waiting: OnWaiting = lambda reason: None
) -> AsyncGenerator[Changes, None]:
    """Yields what changes from now on, without an end; what waits while the caller is busy comes as one.

    Begins with `Changes()` (read everything) once it listens, and yields that again after each connection
    that was lost. Waits for Postgres without limit: calls `on_waiting` with the reason, and with None when it
    listens again. Raises BadDsnError. To be closed, as with `contextlib.aclosing`: it has a connection.
    """
    pause = FIRST_PAUSE_S
    while True:
        try:
            async with _listening(dsn, schema) as waiting:
                on_waiting(None)
                pause = FIRST_PAUSE_S
                yield Changes()
                while True:
                    yield await waiting.next()
        except PostgresGoneError as error:
            on_waiting(f"waiting for Postgres: {error}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)


class _WaitingChanges:
    """Changes that were received and not read so far, as one."""

    def __init__(self, connection: Connection, schema: str) -> None:
        self._connection, self._schema = connection, schema
        self._changes: Changes | None = None
        self._changed = asyncio.Event()

    def receive(self, connection: object, pid: int, channel: str, payload: object) -> None:
        """Takes a notification, as asyncpg calls its listeners."""
        found = changes_of(str(payload), self._schema)
        if found is not None:
            self._changes = found if self._changes is None else self._changes.followed_by(found)
            self._changed.set()

    def wake(self, connection: object) -> None:
        """Wakes the reader since the connection has ended."""
        self._changed.set()

    async def next(self) -> Changes:
        """Waits for changes and returns them; raises PostgresGoneError when the connection has ended.

        A connection without notifications is checked every 10 s: a host that is gone closes nothing.
        """
        while self._changes is None:
            try:
                await asyncio.wait_for(self._changed.wait(), PING_EVERY_S)
            except TimeoutError:
                with translated_errors():
                    await self._connection.execute("SELECT 1", timeout=PING_LIMIT_S)
            if self._connection.is_closed():
                raise PostgresGoneError("the connection for notifications was closed")
        found, self._changes = self._changes, None
        self._changed.clear()
        return found


@asynccontextmanager
async def _listening(dsn: str, schema: str) -> AsyncIterator[_WaitingChanges]:
    """Yields the changes that a connection of its own receives."""
    connection = await connect(dsn, schema)
    try:
        waiting = _WaitingChanges(connection, schema)
        connection.add_termination_listener(waiting.wake)
        with translated_errors():
            await connection.add_listener(CHANNEL, waiting.receive)
        yield waiting
    finally:
        connection.terminate()
