"""Connections for reads that run at the same time: each read has a snapshot and a time limit."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from trackside.projections.database.postgres import LIVE_SCHEMA, Connection, Database

T = TypeVar("T")


class ReadPool:
    """At most `size` connections, opened when they are needed; a read waits while all are in use."""

    def __init__(self, dsn: str, size: int, statement_limit_s: float) -> None:
        self._dsn, self.statement_limit_s = dsn, statement_limit_s
        self._free = [Database(dsn, LIVE_SCHEMA) for _ in range(size)]
        self._room = asyncio.Semaphore(size)

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Runs `work` in one transaction that only reads: its queries see one snapshot, nothing is locked.

        Raises StatementTimeoutError if one of them takes too long, PostgresGoneError, SchemaMissingError.
        """

        async def limited(connection: Connection) -> T:
            limit_ms = round(self.statement_limit_s * 1_000)
            await connection.execute(
                f"SET LOCAL statement_timeout = {limit_ms}; SET LOCAL transaction_read_only = on"
            )
            return await work(connection)

        return await self.use(lambda database: database.transaction(limited, repeatable_read=True))

    async def use(self, work: Callable[[Database], Awaitable[T]]) -> T:
        """Runs `work`, which makes its own transactions and limits their time, with one of the connections.

        Raises what `work` raises.
        """
        async with self._room:
            database = self._free.pop()
            try:
                return await work(database)
            finally:
                self._free.append(database)

    def close(self) -> None:
        """Drops all connections."""
        for database in self._free:
            database.terminate()
