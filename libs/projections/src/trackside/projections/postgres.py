"""The only user of asyncpg: connections, transactions tried until they stand, rows in and out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, TypeAlias, TypeVar

import asyncpg

from trackside.projections.projection import Row, Table, Write

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Result = TypeVar("Result")
LIVE_SCHEMA = "trackside"
CONNECT_LIMIT_S = 5.0
TRANSACTION_LIMIT_S = 60.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5
_SETTINGS = {
    "application_name": "trackside",
    "statement_timeout": "30s",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
}


class PostgresGoneError(Exception):
    """Postgres didn't answer, or gave up a transaction: try the whole transaction again."""


class SchemaMissingError(Exception):
    """The read models are not there, or no longer: create them and fold the log from its start."""


def _is_transient(error: BaseException) -> bool:
    """Says whether a transaction that died of this error may stand when it is tried again.

    When a server dies, asyncpg raises five kinds of errors (asyncpg #1069, #784); DataError is a kind
    of InterfaceError but means that our own values are wrong.
    """
    if isinstance(error, asyncpg.InterfaceError):
        return not isinstance(error, ValueError)
    kinds = (
        asyncpg.PostgresConnectionError,
        asyncpg.InternalClientError,
        asyncpg.OperatorInterventionError,
        asyncpg.InsufficientResourcesError,
        asyncpg.TransactionRollbackError,
        asyncpg.LockNotAvailableError,
        asyncpg.IdleInTransactionSessionTimeoutError,
        OSError,
        TimeoutError,
    )
    return isinstance(error, kinds)


def _is_missing(error: BaseException) -> bool:
    kinds = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedColumnError)
    return isinstance(error, kinds)


async def connect(dsn: str, schema: str, *, limited: bool = True) -> Connection:
    """Opens a connection that sees `schema` first; `limited` sets time limits for statements and locks.

    Raises PostgresGoneError if there is no answer within 5 s or no such database.
    """
    settings = {**(_SETTINGS if limited else {"application_name": "trackside"}), "search_path": schema}
    try:
        return await asyncpg.connect(dsn, timeout=CONNECT_LIMIT_S, server_settings=settings)
    except asyncpg.InvalidCatalogNameError as error:
        raise PostgresGoneError(f"{error}; create the database") from error
    except Exception as error:
        if _is_transient(error):
            raise PostgresGoneError(_text(error)) from error
        raise


class Database:
    """One connection to the read models, opened when it is needed and again after it broke."""

    def __init__(self, dsn: str, schema: str = LIVE_SCHEMA) -> None:
        self.schema = schema
        self._dsn = dsn
        self._connection: Connection | None = None

    async def transaction(
        self, work: Callable[[Connection], Awaitable[Result]], *, one_moment: bool = False
    ) -> Result:
        """Does `work` in one transaction of at most 60 s; `one_moment`: all it reads is of one moment.

        Raises PostgresGoneError when it isn't known whether it stands, SchemaMissingError when a table
        isn't there; after either the next call opens a new connection.
        """
        isolation: Literal["repeatable_read"] | None = "repeatable_read" if one_moment else None
        try:
            with _named():
                async with asyncio.timeout(TRANSACTION_LIMIT_S):
                    if self._connection is None:
                        self._connection = await connect(self._dsn, self.schema)
                    async with self._connection.transaction(isolation=isolation):
                        return await work(self._connection)
        except BaseException:
            self.terminate()
            raise

    async def persist(
        self,
        work: Callable[[Connection], Awaitable[Result]],
        waiting: Callable[[str | None], None],
        *,
        one_moment: bool = False,
    ) -> Result:
        """Does `work` in one transaction, again and again until it stands.

        `waiting` is told the reason while it does not, and None when it goes on. `work` must be able to
        find that it stands already: an answer can be lost behind its commit.
        """
        pause = FIRST_PAUSE_S
        while True:
            try:
                result = await self.transaction(work, one_moment=one_moment)
            except PostgresGoneError as error:
                waiting(f"waiting for Postgres: {error}")
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)
            else:
                waiting(None)
                return result

    def terminate(self) -> None:
        """Drops the connection without a goodbye: one that hangs can't be closed."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


@asynccontextmanager
async def database(dsn: str, schema: str = LIVE_SCHEMA) -> AsyncIterator[Database]:
    """Gives a Database, and drops its connection at the end."""
    opened = Database(dsn, schema)
    try:
        yield opened
    finally:
        opened.terminate()


@asynccontextmanager
async def held_cut(dsn: str, schema: str) -> AsyncIterator[Connection]:
    """Gives a connection that sees one moment of the read models for as long as it is open.

    Raises PostgresGoneError or SchemaMissingError for what goes wrong inside.
    """
    connection = await connect(dsn, schema, limited=False)
    try:
        with _named():
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                yield connection
    finally:
        connection.terminate()


class _Undone(Exception):
    """Rolls a trial transaction back."""


@asynccontextmanager
async def trial(dsn: str, schema: str) -> AsyncIterator["Trial"]:
    """Gives a transaction without time limits that is undone at the end, unless `keep` was called.

    Raises PostgresGoneError or SchemaMissingError for what goes wrong inside.
    """
    connection = await connect(dsn, schema, limited=False)
    attempt = Trial(connection)
    try:
        with _named(), suppress(_Undone):
            async with connection.transaction():
                yield attempt
                if not attempt.kept:
                    raise _Undone
    finally:
        connection.terminate()


@dataclass(slots=True)
class Trial:
    """A transaction that only stands if it is kept."""

    connection: Connection
    kept: bool = False

    def keep(self) -> None:
        """Lets it stand when its block ends."""
        self.kept = True


@contextmanager
def _named() -> Iterator[None]:
    """Turns errors of asyncpg into ours."""
    try:
        yield
    except Exception as error:
        if _is_missing(error):
            raise SchemaMissingError(_text(error)) from error
        if _is_transient(error):
            raise PostgresGoneError(_text(error)) from error
        raise


@cache
def sql(folder: str, name: str) -> str:
    """Reads one of our .sql files, once: some are needed for every transaction."""
    return (resources.files("trackside.projections") / folder / f"{name}.sql").read_text("utf-8")


async def execute_allowed(connection: Connection, statement: str) -> bool:
    """Executes a statement that needs more rights than we may have; says whether it was allowed."""
    try:
        async with connection.transaction():
            await connection.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        return False
    return True


async def lock_tables(
    connection: Connection, names: str, within_s: float, mode: Literal["EXCLUSIVE", "ACCESS EXCLUSIVE"]
) -> bool:
    """Keeps writers (access: readers too) away from tables until the transaction ends.

    Says whether they let it, each within the time: else none of them is held.
    """
    try:
        async with connection.transaction():
            before = await connection.fetchval("SHOW lock_timeout")
            await connection.execute(f"SET LOCAL lock_timeout = {int(within_s * 1000)}")
            await connection.execute(f"LOCK TABLE {names} IN {mode} MODE")
            await connection.execute(f"SET LOCAL lock_timeout = '{before}'")
    except asyncpg.LockNotAvailableError:
        return False
    return True


async def copy(connection: Connection, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Copies new rows into a table; raises SchemaMissingError, or UniqueViolationError for a known key."""
    await connection.copy_records_to_table(table, records=rows, columns=list(columns))


async def copy_new(connection: Connection, table: Table, rows: Sequence[Row]) -> int:
    """Copies rows of which some may be there, or be there twice; the first of a key stays. Counts the new.

    Most often all are new, so a plain COPY is tried first, under a savepoint.
    """
    try:
        async with connection.transaction():
            await copy(connection, table.name, table.columns, rows)
            return len(rows)
    except asyncpg.UniqueViolationError:
        pass
    stage = f"new_{table.name}"
    await connection.execute(f"CREATE TEMP TABLE {stage} (LIKE {table.name}) ON COMMIT DROP")
    await connection.copy_records_to_table(stage, records=rows, columns=list(table.columns))
    names = ", ".join(table.columns)
    statement = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {stage} ON CONFLICT DO NOTHING"  # noqa: S608
    status = await connection.execute(statement)
    await connection.execute(f"DROP TABLE {stage}")
    return int(status.rsplit(" ", 1)[1])


async def copy_out(
    connection: Connection, query: str, take: Callable[[bytes], Coroutine[None, None, None]]
) -> None:
    """Hands the rows of a query to `take`, as the bytes of COPY in text form."""
    await connection.copy_from_query(query, output=take)


async def stream_rows(connection: Connection, query: str) -> AsyncIterator[Row]:
    """Gives the rows of a query one after another; to be called in a transaction."""
    async for record in connection.cursor(query, prefetch=1_000):
        yield tuple(record)


async def upsert(connection: Connection, write: Write) -> None:
    """Writes rows over those with the same key, as `Table.merged` says."""
    table = write.table
    if table.grouped:
        statement = f"DELETE FROM {table.name} WHERE {table.key[0]} = ANY($1)"  # noqa: S608 - our names
        await connection.execute(statement, write.groups)
    if write.rows:
        await connection.executemany(upsert_sql(table), write.rows)


def upsert_sql(table: Table) -> str:
    """Writes the statement that inserts a row of a table or writes over the one that is there."""
    names = ", ".join(table.columns)
    values = ", ".join(f"${at}" for at in range(1, len(table.columns) + 1))
    changes = ", ".join(_change(table, name) for name in table.columns[table.key_width :])
    action = "NOTHING" if table.insert_only else f"UPDATE SET {changes}"
    key = ", ".join(table.key)
    return f"INSERT INTO {table.name} ({names}) VALUES ({values}) ON CONFLICT ({key}) DO {action}"  # noqa: S608


def _change(table: Table, name: str) -> str:
    if name in table.kept:
        return f"{name} = coalesce({table.name}.{name}, excluded.{name})"
    return f"{name} = excluded.{name}"


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
