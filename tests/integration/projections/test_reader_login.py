"""The login of dashboards holds nobody up, and may do nothing but read the views."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from prometheus_client import REGISTRY

from tests.integration.projections.given_login import OURS, SESSIONS, Login
from tests.integration.projections.harness import TOPICS, all_rows, query, running_projections
from tests.integration.projections.login_attempts import REFUSED, WITHOUT_EFFECT
from tests.integration.projections.postgres_server import KillablePostgres
from tests.integration.projections.test_upgrade import a_later_release
from tests.unit.projections.given import HistoryWriter, write_small_history
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.memory import MemoryLog
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.database.reader_login import ensure_login, excess_of_login
from trackside.projections.database.reader_sessions import end_long_sessions, end_sessions
from trackside.projections.database.settings import READER
from trackside.projections.writing.migrate import migrate
from trackside.replay.rebuild.rebuild import rebuild

OWNERS = ("dispatcher", "scheduler", "summary-indexer")


@pytest.fixture
async def log(killable: KillablePostgres) -> MemoryLog:
    """Returns a log with a small history, whose rows are written."""
    log = MemoryLog()
    await log.ensure(TOPICS.shared)
    await write_small_history(log, TOPICS)
    async with running_projections(log, killable.dsn, *OWNERS) as projections:
        await projections.caught_up()
    return log


@pytest.fixture
async def login(log: MemoryLog, killable: KillablePostgres) -> AsyncIterator[Login]:
    async with opened_database(killable.dsn) as opened:
        await opened.transaction(lambda connection: ensure_login(connection, "secret"))
    parts = urlsplit(killable.dsn)
    made = Login(urlunsplit(parts._replace(netloc=f"{READER}@")), killable.dsn)
    yield made
    await made.release()


async def took_s(work: Callable[[], Awaitable[object]]) -> float:
    began_s = monotonic_s()
    await work()
    return monotonic_s() - began_s


@pytest.mark.timeout(120)
async def test_rows_are_written_swapped_and_made_again_while_the_login_holds_all_that_it_can(
    log: MemoryLog, login: Login
) -> None:
    history = HistoryWriter(log, TOPICS)

    async def write() -> None:
        async with running_projections(log, login.owner, *OWNERS) as projections:
            await history.search(f"more{len(await log.ends(TOPICS.events.name))}{monotonic_s()}", lost=0)
            await projections.caught_up()

    async def swap() -> None:
        report = await rebuild(log, TOPICS, login.owner, swap=True)
        assert report.swapped and report.equal

    async def make_again() -> None:
        with a_later_release():
            async with opened_database(login.owner) as opened:
                await opened.transaction(migrate)
        async with opened_database(login.owner) as opened:  # and back, by the generation that is known
            await opened.transaction(lambda c: c.execute("UPDATE trackside.definitions SET generation = 0"))
            await opened.transaction(migrate)

    usual = {work: await took_s(work) for work in (write, swap, make_again)}
    async with running_projections(log, login.owner, *OWNERS) as projections:
        await projections.caught_up()
    for work, usual_s in usual.items():
        await login.hold_all()
        assert await took_s(work) < 2 * usual_s + 20, (
            "a machine may pause; who waits for the login waits for ever"
        )
        await login.release()
        async with running_projections(log, login.owner, *OWNERS) as projections:
            await projections.caught_up()


STATE = """
SELECT nspname, nspacl::text, relname, relacl::text, relowner::text FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname !~ '^pg_toast'
UNION ALL SELECT rolname, rolsuper::text, rolcanlogin::text, rolconnlimit::text, '' FROM pg_roles
UNION ALL SELECT datname, datacl::text, '', '', '' FROM pg_database
UNION ALL SELECT oid::text, lomowner::text, '', '', '' FROM pg_largeobject_metadata
ORDER BY 1, 3
"""
OTHERS = "(SELECT pid FROM pg_stat_activity WHERE usename <> current_user) AS others"
REFUSALS = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedFunctionError,  # functions of extensions that are not there
    asyncpg.UndefinedTableError,
    asyncpg.FeatureNotSupportedError,  # an extension that is not there
    asyncpg.ObjectNotInPrerequisiteStateError,  # prepared transactions, which no server has by default
)


async def test_the_login_may_do_nothing_but_read(log: MemoryLog, login: Login) -> None:
    """Each attempt is made by a session that has lifted its own limits."""
    rows, state = await all_rows(login.owner), await query(login.owner, STATE)
    session, done = await login.connect(), []
    other = await asyncpg.connect(login.owner)
    login.closing.callback(other.terminate)
    await session.execute("SET default_transaction_read_only = off")
    for statement in REFUSED:
        attempt = statement.replace("others", OTHERS)
        try:
            if statement.startswith(("LOCK", "PREPARE")):
                async with session.transaction():
                    await session.execute(attempt)
            else:
                await session.execute(attempt)
            done.append(statement)
        except REFUSALS:
            pass
    assert done == []
    for statement in WITHOUT_EFFECT:
        await session.execute(statement)
    assert await all_rows(login.owner) == rows
    assert await query(login.owner, STATE) == state
    await other.fetch("SELECT 1")
    for database in ("postgres", "template1"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await login.connect(database=database)
    for _ in range(SESSIONS - 1):
        await login.connect()
    with pytest.raises(asyncpg.TooManyConnectionsError):
        await login.connect()


def counted() -> float:
    return REGISTRY.get_sample_value("trackside_projections_ended_sessions_total") or 0.0


async def test_sessions_that_last_too_long_or_have_numbered_locks_are_ended_and_counted(login: Login) -> None:
    sessions = [await login.connect() for _ in range(4)]
    short, statement, transaction, locks = sessions
    await query(login.owner, "GRANT EXECUTE ON FUNCTION pg_try_advisory_lock(bigint) TO PUBLIC")
    await locks.execute("SELECT pg_try_advisory_lock(g) FROM generate_series(1, 100) AS g")
    loop = "DO $$ BEGIN LOOP PERFORM pg_sleep(0.1); COMMIT; END LOOP; END $$"
    sleeping = asyncio.create_task(statement.execute(loop))
    await transaction.execute("BEGIN")
    before = counted()
    ending = asyncio.create_task(end_long_sessions(login.owner, every_s=0.1, limit_s=1.0))
    try:
        async with asyncio.timeout(60):
            with pytest.raises(asyncpg.PostgresError):
                await sleeping
            # A session is closed before the count of those that were ended with it has come.
            while counted() - before < 3 or any(not s.is_closed() for s in (statement, transaction, locks)):
                await short.fetch("SELECT 1 FROM searches")
    finally:
        ending.cancel()
    assert counted() - before == 3
    assert await query(login.owner, f"SELECT count(*) {OURS} AND pid = $1", short.get_server_pid()) == [(1,)]


async def test_an_owner_that_is_no_superuser_limits_and_ends_sessions_and_says_what_it_may_not_limit(
    killable: KillablePostgres,
) -> None:
    name = killable.database
    for statement in (
        "DROP ROLE IF EXISTS trackside_dashboards, trackside_reader, owner",
        "CREATE ROLE owner LOGIN CREATEROLE",
        f"ALTER DATABASE {name} OWNER TO owner",
    ):
        await query(killable.dsn, statement)
    login = Login(
        killable.dsn.replace("postgres@", f"{READER}@"), killable.dsn.replace("postgres@", "owner@")
    )
    try:
        async with opened_database(login.owner) as opened:
            await opened.transaction(migrate)
            await opened.transaction(lambda connection: ensure_login(connection, "secret"))
            excess = await opened.transaction(excess_of_login)
            assert excess == ["large objects", "numbered locks", "files for sorting without a limit"]
            holding = await login.connect()
            await holding.execute("BEGIN; SELECT count(*) FROM searches")
            assert await opened.transaction(lambda connection: end_sessions(connection, 0.0)) == 1
            await opened.transaction(lambda c: c.execute(f"REVOKE {READER} FROM owner"))
            assert await opened.transaction(lambda connection: end_sessions(connection, 0.0)) is None
            assert "sessions that we may not end" in await opened.transaction(excess_of_login)
    finally:
        await login.closing.aclose()
        await query(killable.dsn, f"ALTER DATABASE {name} OWNER TO postgres")
        await query(killable.dsn, "REASSIGN OWNED BY owner TO postgres")
        await query(killable.dsn, "DROP OWNED BY trackside_dashboards, trackside_reader, owner")
        await query(killable.dsn, "DROP ROLE trackside_dashboards, trackside_reader, owner")
