"""The keys of encrypted streams, in a schema of their own: they can't be made again from the log.

A stream is forgotten by deleting its keys. It may have several: two dispatchers that receive its first
command each make one.
"""

import asyncio
import base64
from collections.abc import Callable, Collection, Mapping
from functools import partial

import structlog

from trackside.eventlog.errors import TransientError
from trackside.eventlog.keys.encryption import new_key_pair
from trackside.projections.database.postgres import (
    Connection,
    Database,
    PostgresGoneError,
    SchemaMissingError,
    create_missing,
    fetch_allowed,
    sql,
)

log = structlog.get_logger("trackside.projections")

SCHEMA = "trackside_keys"


class PostgresStreamKeys:
    """The keys of encrypted streams in the database of the read models; connects when one is needed."""

    def __init__(self, dsn: str) -> None:
        self._database = Database(dsn, SCHEMA)

    async def load(self, public_keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Returns the private keys of those of these public keys that are kept; raises TransientError.

        There are none where the user of the database may not read them.
        """
        try:
            return await self._database.transaction(partial(_load, list(public_keys)))
        except PostgresGoneError as error:
            raise TransientError(f"Postgres: {error}") from error
        except SchemaMissingError:
            return {}

    def close(self) -> None:
        """Closes the connection."""
        self._database.terminate()


async def delete_keys(connection: Connection, streams: Collection[str]) -> None:
    """Deletes the keys of streams: what the log has of them can't be read any more."""
    if await connection.fetchval("SELECT to_regclass('trackside_keys.stream_keys') IS NOT NULL"):
        await connection.execute(sql("queries", "delete_stream_keys"), list(streams))


class NewStreamKeys:
    """Makes keys for streams that begin, in the background, and has them until the streams have begun."""

    def __init__(self, dsn: str) -> None:
        self._database = Database(dsn, SCHEMA)
        self._wanted: set[str] = set()
        self._made: dict[str, str] = {}
        self._added = asyncio.Event()

    def take(self, stream: str) -> str:
        """Returns the public key of a new stream, base64; empty until it is in the database."""
        made = self._made.get(stream, "")
        if not made and stream not in self._wanted:
            self._wanted.add(stream)
            self._added.set()
        return made

    def begun(self, stream: str) -> None:
        """Forgets a stream that has begun."""
        self._made.pop(stream, None)

    async def run(self, wake: Callable[[], None]) -> None:
        """Makes the keys that are wanted until it is cancelled; calls `wake` once some are there."""
        try:
            while True:
                await self._added.wait()
                self._added.clear()
                pairs = {stream: new_key_pair() for stream in self._wanted}
                work = partial(_put, pairs)
                await self._database.commit_with_retries(work, _log_waiting)
                self._wanted -= pairs.keys()
                for stream, (_private, public) in pairs.items():
                    self._made[stream] = base64.b64encode(public).decode()
                if self._wanted:
                    self._added.set()
                wake()
        finally:
            self._database.terminate()


def _log_waiting(reason: str | None) -> None:
    if reason is not None:
        log.warning("encrypted streams wait for their keys", reason=reason)


async def _load(public_keys: list[bytes], connection: Connection) -> dict[bytes, bytes]:
    rows = await fetch_allowed(connection, sql("queries", "stream_keys"), public_keys)
    return {row["public_key"]: row["private_key"] for row in rows}


async def _put(pairs: Mapping[str, tuple[bytes, bytes]], connection: Connection) -> None:
    await create_missing(connection, f"{SCHEMA}.stream_keys", sql("queries", "create_stream_keys"))
    rows = [(public, stream, private) for stream, (private, public) in pairs.items()]
    await connection.executemany(sql("queries", "put_stream_key"), rows)
