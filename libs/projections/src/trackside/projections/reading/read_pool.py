"""Reads of a web server: several at the same time, each of one snapshot with its positions in the log."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trackside.domain.rows.table import ViewRow
from trackside.projections.database.notifications import OwnedPosition
from trackside.projections.database.postgres import (
    LIVE_SCHEMA,
    Connection,
    PostgresGoneError,
    SchemaMissingError,
    connect,
    translated_errors,
)
from trackside.projections.reading.reads import SCHEMA, fetch_rows, statement_of

STATEMENT_LIMIT_S = 10
READ_LIMIT_S = 30.0
_SETTINGS = (
    f"SET statement_timeout = '{STATEMENT_LIMIT_S}s'; SET jit = off; SET work_mem = '32MB'; "
    "SET parallel_setup_cost = 100; SET parallel_tuple_cost = 0.01"
)
"""Compiling a query takes longer than most of these queries; their rows are cheap to collect from workers."""


class SnapshotModels:
    """The read models at one moment: all its queries see the same rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def rows(self, query: str, *values: object) -> list[ViewRow]:
        """Returns the rows of a named query, or of `KIND.NAME`: the query of an aggregate's view."""
        return await self.fetch(statement_of(query), *values)

    async def row(self, query: str, *values: object) -> ViewRow | None:
        """Returns the first row of a named query, or None."""
        found = await self.rows(query, *values)
        return found[0] if found else None

    async def fetch(self, statement: str, *values: object) -> list[ViewRow]:
        """Returns the rows of a statement as dicts of JSON-like values and datetimes."""
        return await fetch_rows(self.connection, statement, *values)

    async def positions(self) -> dict[OwnedPosition, int]:
        """Returns the next offset by owner, topic and partition: the rows include the log up to there."""
        found = await self.connection.fetch("SELECT owner, topic, partition, position FROM positions")
        return {(row["owner"], row["topic"], row["partition"]): row["position"] for row in found}


class ReadModelsPool:
    """At most `size` connections, opened when they are needed; a read waits while all are in use.

    Names of tables are first searched in `schema`, the views, and then in the live schema. A read takes at
    most `limit_s`.
    """

    def __init__(self, dsn: str, schema: str = SCHEMA, size: int = 4, limit_s: float = READ_LIMIT_S) -> None:
        self._dsn, self._search_path = dsn, f"{schema},{LIVE_SCHEMA}"
        self._limit_s = limit_s
        self._free: list[Connection] = []
        self._room = asyncio.Semaphore(size)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[SnapshotModels]:
        """Yields the read models at one moment, in a transaction that only reads, of limited time.

        Raises StatementTimeoutError if a query takes longer than 10 s, PostgresGoneError if Postgres doesn't
        respond, SchemaMissingError if the views don't exist. After these the connection is not used again.
        """
        async with self._room:
            connection: Connection | None = None
            try:
                with translated_errors():
                    async with asyncio.timeout(self._limit_s):
                        connection = await self._connection()
                        transaction = connection.transaction(isolation="repeatable_read", readonly=True)
                        await transaction.start()
                        try:
                            yield SnapshotModels(connection)
                        except Exception:
                            await transaction.rollback()
                            raise
                        await transaction.commit()
            except BaseException as error:
                # Of a read that was cancelled, no rollback is waited for: Postgres may not answer any more.
                if connection is not None:
                    self._put_back(connection, error)
                raise
            self._free.append(connection)

    def _put_back(self, connection: Connection, error: BaseException) -> None:
        """Keeps a connection after an error of the caller; in any other case its state is not known."""
        of_postgres = isinstance(error, PostgresGoneError | SchemaMissingError)
        if of_postgres or not isinstance(error, Exception) or connection.is_in_transaction():
            connection.terminate()
        else:
            self._free.append(connection)

    async def _connection(self) -> Connection:
        while self._free:
            connection = self._free.pop()
            if not connection.is_closed():
                return connection
        connection = await connect(self._dsn, self._search_path)
        try:
            await connection.execute(_SETTINGS)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def close(self) -> None:
        """Drops the connections that are not in use."""
        while self._free:
            self._free.pop().terminate()
