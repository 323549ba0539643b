"""Access to Postgres, the only module that uses asyncpg: connections, transactions, rows in and out."""

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from typing import Literal, TypeAlias, TypeVar, cast
from urllib.parse import parse_qs, urlsplit

import asyncpg
from asyncpg import connect_utils

from trackside.domain.rows.table import RowValues, Table
from trackside.eventlog.reachability import WITHIN_S, report_until_reachable
from trackside.projections.database.blockers import Blockers, noted_blockers
from trackside.projections.database.read_times import with_any_time

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
T = TypeVar("T")
LIVE_SCHEMA = "trackside"
CONNECT_LIMIT_S = 5.0
TRANSACTION_LIMIT_S = 60.0
QUERY_MEMORY_MIB = 64
"""How much memory one sort or join of `fetch_within` may have before it uses the disk."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 0.5
_SETTINGS = {
    "application_name": "trackside",
    "statement_timeout": "45s",
    "lock_timeout": "30s",  # less: what waits for a lock fails as such, and not as a statement that is slow
    "idle_in_transaction_session_timeout": "60s",
}
LockMode = Literal["SHARE UPDATE EXCLUSIVE", "EXCLUSIVE", "ACCESS EXCLUSIVE"]
"""What a lock of a table keeps out: its own kind, so one process at a time; writers, too; readers, too."""
_NETWORK_ERRORS = (errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET)


class PostgresGoneError(Exception):
    """Postgres didn't respond, or aborted a transaction: try the whole transaction again."""


class StatementTimeoutError(PostgresGoneError):
    """A statement or a transaction took longer than it may, and was cancelled."""


class BadDsnError(Exception):
    """The DSN of Postgres is not one; the message does not repeat it, for it may have a password."""


class NestedTransactionError(Exception):
    """A task began a transaction on a Database inside of its own transaction on the same Database."""


class SchemaMissingError(Exception):
    """The read models don't exist (any more): create them and fold the log from its start."""


def _is_transient(error: BaseException) -> bool:
    """Returns whether a transaction that failed with this error may succeed when it is retried.

    When a server dies, asyncpg raises five kinds of errors (asyncpg #1069, #784); DataError is a kind
    of InterfaceError but means that our own values are wrong.
    """
    if isinstance(error, asyncpg.InterfaceError):
        return not isinstance(error, ValueError)
    kinds = (
        asyncpg.PostgresConnectionError,
        asyncpg.InternalClientError,
        asyncpg.InvalidCachedStatementError,  # a view has other columns since the statement was prepared
        asyncpg.OperatorInterventionError,
        asyncpg.InsufficientResourcesError,
        asyncpg.TransactionRollbackError,
        asyncpg.LockNotAvailableError,
        asyncpg.IdleInTransactionSessionTimeoutError,
        ConnectionError,
        TimeoutError,
    )
    return isinstance(error, kinds) or getattr(error, "errno", None) in _NETWORK_ERRORS


def _is_missing(error: BaseException) -> bool:
    kinds = (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedColumnError)
    return isinstance(error, kinds)


class _Upgrade(connect_utils.TLSUpgradeProto):
    """Asks for TLS; if `connect` was cancelled before the question, nobody awaits the error of its answer."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.on_data.cancelled():
            self.on_data.exception()  # counts as retrieved, so that asyncio does not print it


connect_utils.TLSUpgradeProto = _Upgrade  # type: ignore[misc]  # asyncpg has no other way to give it


async def connect(dsn: str, schema: str, *, limited: bool = True) -> Connection:
    """Opens a connection with `schema` as its search path; `limited` limits the time of statements and locks.

    Raises PostgresGoneError if there is no response within 5 s or no such database, BadDsnError if `dsn` is
    malformed.
    """
    settings = {**(_SETTINGS if limited else {"application_name": "trackside"}), "search_path": schema}
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_LIMIT_S, server_settings=settings)
        return cast(Connection, await with_any_time(connection, CONNECT_LIMIT_S))
    except asyncpg.InvalidCatalogNameError as error:
        raise PostgresGoneError(f"{address_of(dsn)}: {error}; create the database") from error
    except Exception as error:
        if _is_transient(error) or isinstance(error, OSError):
            raise PostgresGoneError(f"{address_of(dsn)}: {_text(error)}") from error
        if isinstance(error, ValueError) and not isinstance(error, asyncpg.PostgresError):
            raise BadDsnError(BAD_DSN) from None  # what asyncpg says repeats a part of it
        raise


async def ask_postgres(dsn: str) -> None:
    """Logs in to Postgres; raises ConnectionError with the reason if that is not possible."""
    try:
        connection = await connect(dsn, LIVE_SCHEMA)
    except (PostgresGoneError, BadDsnError, asyncpg.PostgresError) as error:
        raise ConnectionError(str(error)) from error
    connection.terminate()


class Database:
    """One connection to the read models, opened on first use and reopened after it broke.

    It has one transaction at a time, of at most `limit_s`: other tasks wait until it is over.
    """

    def __init__(self, dsn: str, schema: str = LIVE_SCHEMA) -> None:
        self.schema, self._dsn = schema, dsn
        self.limit_s: float | None = TRANSACTION_LIMIT_S
        self._connection: Connection | None = None
        self._free = asyncio.Lock()
        self._holder: asyncio.Task[object] | None = None

    async def transaction(
        self, work: Callable[[Connection], Awaitable[T]], *, repeatable_read: bool = False
    ) -> T:
        """Runs `work` in one transaction; `repeatable_read`: all queries see one snapshot.

        Waits while another task has a transaction on this Database. Raises PostgresGoneError when it isn't
        known whether it was committed, SchemaMissingError when a table is missing, and after either the next
        call opens a new connection; NestedTransactionError if `work` calls this method of the same Database.
        """
        if self._holder is not None and self._holder is asyncio.current_task():
            hint = "pass on the connection of the outer one, or open a Database of its own"
            raise NestedTransactionError(f"a transaction inside of another on the same Database: {hint}")
        # asyncpg would run the second of two transactions as a savepoint of the first: if that was rolled
        # back, the second would be lost although its caller saw it committed.
        async with self._free:
            self._holder = asyncio.current_task()
            try:
                return await self._exclusively(work, repeatable_read)
            finally:
                self._holder = None

    async def _exclusively(self, work: Callable[[Connection], Awaitable[T]], repeatable_read: bool) -> T:
        try:
            with translated_errors():
                if self._connection is None:
                    self._connection = await connect(self._dsn, self.schema)
                return await self._transaction(self._connection, work, repeatable_read)
        except BaseException:
            self.terminate()
            raise

    async def _transaction(
        self, connection: Connection, work: Callable[[Connection], Awaitable[T]], repeatable_read: bool
    ) -> T:
        isolation: Literal["repeatable_read"] | None = "repeatable_read" if repeatable_read else None
        blockers = Blockers()
        try:
            async with asyncio.timeout(self.limit_s), connection.transaction(isolation=isolation):
                # Asked no more once the work has failed: nobody blocks it while it is rolled back.
                with noted_blockers(
                    blockers, connection.get_server_pid(), partial(connect, self._dsn, self.schema)
                ):
                    return await work(connection)
        except (asyncpg.LockNotAvailableError, asyncpg.QueryCanceledError, TimeoutError) as error:
            if blockers.text:
                raise asyncpg.LockNotAvailableError(f"{_text(error)}; {blockers.text}") from error
            raise

    async def commit_with_retries(
        self,
        work: Callable[[Connection], Awaitable[T]],
        on_waiting: Callable[[str | None], None],
        *,
        repeatable_read: bool = False,
        retries_timeouts: bool = True,
    ) -> T:
        """Runs `work` in one transaction, and retries it until it is committed.

        Calls `on_waiting` with the reason of each retry, and with None once it is committed. `work` must
        detect that it was committed already: the response to a commit can be lost. Unless it
        `retries_timeouts`, StatementTimeoutError is raised: a caller may have less work to give.
        """
        pause = FIRST_PAUSE_S
        while True:
            try:
                result = await self.transaction(work, repeatable_read=repeatable_read)
            except PostgresGoneError as error:
                if isinstance(error, StatementTimeoutError) and not retries_timeouts:
                    raise
                on_waiting(f"waiting for Postgres: {error}")
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_S)
            else:
                on_waiting(None)
                return result

    def terminate(self) -> None:
        """Drops the connection at once: one that hangs can't be closed."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None


@asynccontextmanager
async def database(dsn: str, schema: str = LIVE_SCHEMA) -> AsyncIterator[Database]:
    """Yields a Database, and drops its connection at the end."""
    opened = Database(dsn, schema)
    try:
        yield opened
    finally:
        opened.terminate()


@asynccontextmanager
async def open_repeatable_read(dsn: str, schema: str) -> AsyncIterator[Connection]:
    """Yields a connection in a read-only, repeatable-read transaction.

    Raises PostgresGoneError or SchemaMissingError for errors of Postgres inside.
    """
    connection = await connect(dsn, schema, limited=False)
    try:
        with translated_errors():
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                yield connection
    finally:
        connection.terminate()


class _RollBackError(Exception):
    """Rolls a tentative transaction back."""


@asynccontextmanager
async def tentative_transaction(dsn: str, schema: str) -> AsyncIterator["TentativeTransaction"]:
    """Yields a transaction without time limits that is rolled back at the end, unless `keep` was called.

    Raises PostgresGoneError or SchemaMissingError for errors of Postgres inside.
    """
    connection = await connect(dsn, schema, limited=False)
    attempt = TentativeTransaction(connection)
    try:
        with translated_errors(), suppress(_RollBackError):
            async with connection.transaction():
                yield attempt
                if not attempt.kept:
                    raise _RollBackError
    finally:
        connection.terminate()


@dataclass(slots=True)
class TentativeTransaction:
    """A transaction that is committed only if `keep` is called."""

    connection: Connection
    kept: bool = False

    def keep(self) -> None:
        """Gets it committed when its block ends."""
        self.kept = True


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translates errors of asyncpg into ours; others of the block, such as of a file, pass through."""
    try:
        yield
    except Exception as error:
        if _is_missing(error):
            raise SchemaMissingError(_text(error)) from error
        if isinstance(error, asyncpg.QueryCanceledError | TimeoutError):
            raise StatementTimeoutError(_text(error)) from error
        if _is_transient(error):
            raise PostgresGoneError(_text(error)) from error
        raise


@cache
def sql(folder: str, name: str) -> str:
    """Returns one of our .sql files; cached, since some are needed for every transaction."""
    return (resources.files("trackside.projections") / folder / f"{name}.sql").read_text("utf-8")


async def execute_allowed(connection: Connection, statement: str) -> bool:
    """Executes a statement that may need more privileges than we have; returns whether it was permitted."""
    try:
        async with connection.transaction():
            await connection.execute(statement)
    except asyncpg.InsufficientPrivilegeError:
        return False
    return True


async def fetch_allowed(connection: Connection, statement: str, *values: object) -> list[asyncpg.Record]:
    """Returns the rows of a query that may need more privileges than we have; none without them."""
    try:
        async with connection.transaction():
            return await connection.fetch(statement, *values)
    except asyncpg.InsufficientPrivilegeError:
        return []


async def fetch_within(
    connection: Connection, statement: str, values: Sequence[object], limit_s: float
) -> list[asyncpg.Record]:
    """Returns the rows of a query, which is cancelled if it takes longer than `limit_s` seconds.

    The query is not compiled: for one that is different each time, this takes longer than it saves.
    """
    async with connection.transaction():
        await connection.execute(f"SET LOCAL statement_timeout = {max(1, int(limit_s * 1000))}")
        await connection.execute("SET LOCAL jit = off")
        await connection.execute(f"SET LOCAL work_mem = '{QUERY_MEMORY_MIB}MB'")
        return await connection.fetch(statement, *values)


async def create_missing(connection: Connection, relation: str, statements: str) -> None:
    """Executes CREATE ... IF NOT EXISTS statements unless a relation exists; others may do the same now.

    Raises PermissionError without the right to.
    """
    while not await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", relation):
        with suppress(asyncpg.UniqueViolationError):  # another has committed the same: it is there now
            if not await execute_allowed(connection, statements):
                raise PermissionError(f"the user of TRACKSIDE_POSTGRES_DSN may not create {relation}")


async def lock_tables(connection: Connection, names: str, within_s: float, mode: LockMode) -> bool:
    """Locks tables until the transaction ends.

    Returns False, with no table locked, if one can't be locked within `within_s` seconds.
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


async def copy(connection: Connection, table: str, columns: Sequence[str], rows: Iterable[RowValues]) -> None:
    """Copies new rows into a table; raises SchemaMissingError, or UniqueViolationError for a known key."""
    await connection.copy_records_to_table(table, records=rows, columns=list(columns))


async def copy_new(connection: Connection, table: Table, rows: Sequence[RowValues]) -> Sequence[RowValues]:
    """Copies rows some of which may exist; the first of a key stays. Returns those that are new.

    Most often all are new, so a plain COPY is tried first, under a savepoint.
    """
    try:
        async with connection.transaction():
            await copy(connection, table.name, table.columns, rows)
            return rows
    except asyncpg.UniqueViolationError:
        pass
    stage, names = f"new_{table.name}", ", ".join(table.columns)
    await connection.execute(f"CREATE TEMP TABLE {stage} (LIKE {table.name}, place serial) ON COMMIT DROP")
    await connection.copy_records_to_table(stage, records=rows, columns=list(table.columns))
    selected = f"SELECT {names} FROM {stage} ORDER BY place"  # noqa: S608 - our names
    inserted = f"INSERT INTO {table.name} ({names}) {selected} ON CONFLICT DO NOTHING RETURNING {names}"
    new = await connection.fetch(inserted)
    await connection.execute(f"DROP TABLE {stage}")
    return [tuple(record) for record in new]


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def report_until_postgres_is_reachable(
    dsn: str, say: Callable[[str], None], within_s: float = WITHIN_S
) -> None:
    """Reports that Postgres does not answer at its address, and why; every 30 s until it does."""
    server = f"Postgres at {address_of(dsn)}"
    await report_until_reachable(server, partial(ask_postgres, dsn), say, within_s)


BAD_DSN = (
    "TRACKSIDE_POSTGRES_DSN is malformed: expected postgresql://user:password@host:port/database; write the "
    "characters / ? # @ : % of a user or a password as %2F, %3F, %23, %40, %3A, %25"
)


def address_of(dsn: str) -> str:
    """Returns host, port and database of a DSN, without the user and the password."""
    try:
        found = urlsplit(dsn)
        if not found.hostname and (service := parse_qs(found.query).get("service")):
            return f"service {service[0]} of the service file"
        return f"{found.hostname or 'localhost'}:{found.port or 5432}/{found.path.lstrip('/')}"
    except ValueError:
        return "the address in TRACKSIDE_POSTGRES_DSN"
