"""Snapshots of the past in a schema of their own in the database of the read models."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from trackside.eventlog.log import TopicPartition
from trackside.projections.database.postgres import (
    BadDsnError,
    Connection,
    PostgresGoneError,
    SchemaMissingError,
    connect,
    create_missing,
    database,
    lock_tables,
    sql,
)
from trackside.projections.past.store import StoreUnusableError

PAST_SCHEMA = "trackside_past"
TABLE = f"{PAST_SCHEMA}.snapshots"
WAIT_S = 1.5
"""How long to wait for the lock: autovacuum, which takes the same, gives way after a second."""
T = TypeVar("T")


class PostgresPastStore:
    """Snapshots as rows of one table; no service needs them, so the schema may be dropped at any time.

    Each call has a connection of its own: there are few, and nothing is left open.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    async def positions(self, place: TopicPartition) -> list[int]:
        """Lists the offsets of the snapshots of a partition, in order; none if the table is missing."""

        async def work(connection: Connection) -> list[int]:
            rows = await connection.fetch(sql("queries", "past_positions"), *place)
            return [row["position"] for row in rows]

        return await self._transaction(work, [])

    async def read(
        self, place: TopicPartition, position: int, start: int = 0, length: int = -1
    ) -> bytes | None:
        """Returns bytes of a snapshot; None if there is none."""

        async def work(connection: Connection) -> bytes | None:
            values = (*place, position, start + 1, length if length >= 0 else 2**31 - 2 - start)
            found: bytes | None = await connection.fetchval(sql("queries", "past_octets"), *values)
            return found

        return await self._transaction(work, None)

    async def write(self, place: TopicPartition, position: int, octets: bytes) -> None:
        """Writes a snapshot in one transaction."""

        async def work(connection: Connection) -> None:
            await connection.execute(sql("queries", "put_past"), *place, position, octets)

        await self._transaction(work, None)

    async def remove(self, place: TopicPartition, position: int) -> None:
        """Removes a row."""

        async def work(connection: Connection) -> None:
            await connection.execute(sql("queries", "delete_past"), *place, position)

        await self._transaction(work, None)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[bool]:
        """Creates the table if there is none, and holds a lock of it on a connection of its own."""
        try:
            connection = await connect(self._dsn, PAST_SCHEMA, limited=False)
        except (PostgresGoneError, BadDsnError) as error:
            raise StoreUnusableError(str(error)) from error
        try:
            try:
                await create_missing(connection, TABLE, sql("queries", "create_past"))
            except PermissionError as error:
                raise StoreUnusableError(str(error)) from error
            await connection.transaction().start()  # the lock lasts as long as it, and it as the connection
            yield await lock_tables(connection, TABLE, WAIT_S, "SHARE UPDATE EXCLUSIVE")
        finally:
            connection.terminate()

    async def _transaction(self, work: Callable[[Connection], Awaitable[T]], without_table: T) -> T:
        try:
            async with database(self._dsn, PAST_SCHEMA) as opened:
                return await opened.transaction(work)
        except SchemaMissingError:
            return without_table
        except (PostgresGoneError, BadDsnError) as error:
            raise StoreUnusableError(str(error)) from error
