"""Transactions of tasks that share a Database, one at a time; reads that run at once, each of a snapshot."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.integration.projections.harness import Written, query
from tests.integration.projections.postgres_server import KillablePostgres
from trackside.domain.rows.table import ViewRow
from trackside.projections.database import blockers
from trackside.projections.database.postgres import (
    BadDsnError,
    Connection,
    NestedTransactionError,
    PostgresGoneError,
    SchemaMissingError,
    StatementTimeoutError,
    open_repeatable_read,
    tentative_transaction,
)
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.reading import read_pool
from trackside.projections.reading.read_pool import ReadModelsPool
from trackside.projections.reading.reads import queried_rows, row_of_stream
from trackside.projections.writing.migrate import migrate


@pytest.fixture
async def pool(kept: Written) -> AsyncIterator[ReadModelsPool]:
    """Yields a pool of two connections to the rows of a small log."""
    opened = ReadModelsPool(kept.dsn, size=2)
    yield opened
    opened.close()


async def test_a_read_answers_named_queries_and_knows_its_positions(
    pool: ReadModelsPool, kept: Written
) -> None:
    async with pool.read() as models:
        found = await row_of_stream(models, "one")
        assert found is not None
        aggregate, row = found
        assert row["status"] == "DONE" and row["search_id"] == "one"
        rows = await queried_rows(models, aggregate, ("trials", "tasks"), "one")
        assert len(rows["trials"]) == 3 and rows["trials"][0]["parameters"]
        assert await models.row("task", "no-such-task") is None
        positions = await models.positions()
    stored = await query(kept.dsn, "SELECT owner, topic, partition, position FROM positions")
    assert positions == {(owner, topic, partition): position for owner, topic, partition, position in stored}
    assert any(owner == "dispatcher" and positions[owner, topic, part] for owner, topic, part in positions)


async def test_rows_and_positions_of_a_read_are_of_one_moment(written: Written) -> None:
    pool = ReadModelsPool(written.dsn, size=2)
    async with pool.read() as models:
        before = await models.positions()
        await query(written.dsn, "UPDATE positions SET position = position + 1")
        await query(written.dsn, "UPDATE searches SET status = 'later'")
        assert await models.positions() == before
        assert {row["status"] for row in await models.rows("search.newest", 9)} == {"DONE", "NO_MORE_TRIAL"}
        async with pool.read() as others:
            assert {row["status"] for row in await others.rows("search.newest", 9)} == {"later"}
    pool.close()


async def test_a_read_waits_while_all_connections_are_in_use(pool: ReadModelsPool) -> None:
    ended: list[int] = []

    async def read(number: int, go_on: asyncio.Event) -> None:
        async with pool.read() as models:
            await models.positions()
            await go_on.wait()
        ended.append(number)

    events = [asyncio.Event() for _ in range(3)]
    reads = [asyncio.create_task(read(number, event)) for number, event in enumerate(events)]
    events[2].set()
    events[1].set()
    await reads[2]
    assert ended == [1, 2]
    events[0].set()
    await asyncio.gather(*reads)


async def test_a_read_can_write_nothing(pool: ReadModelsPool) -> None:
    with pytest.raises(Exception, match="read-only transaction"):
        async with pool.read() as models:
            await models.fetch("DELETE FROM trackside.searches RETURNING 1")


async def test_a_query_that_takes_too_long_is_cancelled(
    kept: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_pool, "_SETTINGS", "SET statement_timeout = 50")
    pool = ReadModelsPool(kept.dsn, size=1)
    with pytest.raises(StatementTimeoutError):
        async with pool.read() as models:
            await models.fetch("SELECT pg_sleep(10)")
    async with pool.read() as models:
        assert await models.positions()
    pool.close()


async def test_a_transaction_that_waits_for_a_lock_fails_with_who_holds_it(
    kept: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blockers, "ASK_AFTER_S", 0.05)
    async with opened_database(kept.dsn) as holder, opened_database(kept.dsn) as waiting:
        is_held, is_done = asyncio.Event(), asyncio.Event()

        async def hold(connection: Connection) -> int:
            await connection.execute("LOCK TABLE searches IN ACCESS EXCLUSIVE MODE")
            is_held.set()
            await is_done.wait()
            return connection.get_server_pid()

        async def read(connection: Connection) -> None:
            await connection.execute("SET LOCAL lock_timeout = '3s'")
            await connection.fetch("SELECT FROM searches")

        holding = asyncio.create_task(holder.transaction(hold))
        await is_held.wait()
        with pytest.raises(PostgresGoneError, match="lock timeout; blocked by process") as failed:
            await waiting.transaction(read)
        is_done.set()
        assert f"process {await holding} of user" in str(failed.value)
        assert "LOCK TABLE searches IN ACCESS EXCLUSIVE MODE" in str(failed.value)
        assert not isinstance(failed.value, StatementTimeoutError)


async def test_a_transaction_that_takes_too_long_fails_as_such(kept: Written) -> None:
    async with opened_database(kept.dsn) as opened:
        opened.limit_s = 0.2
        with pytest.raises(StatementTimeoutError, match="TimeoutError"):
            await opened.transaction(lambda connection: connection.execute("SELECT pg_sleep(10)"))


async def test_an_error_of_the_caller_passes_and_the_pool_can_be_used(pool: ReadModelsPool) -> None:
    found = set()

    async def fails() -> None:
        async with pool.read() as models:
            found.add(models.connection.get_server_pid())
            raise LookupError

    for _ in range(3):
        with pytest.raises(LookupError):
            await fails()
    async with pool.read() as models:
        assert await models.positions()
        assert found == {models.connection.get_server_pid()}, "it stays connected"


async def test_a_read_that_is_cancelled_leaves_the_pool_usable(pool: ReadModelsPool) -> None:
    begun = asyncio.Event()

    async def read() -> None:
        async with pool.read() as models:
            begun.set()
            await models.fetch("SELECT pg_sleep(60)")

    for _ in range(3):
        begun.clear()
        task = asyncio.create_task(read())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with pool.read() as models:
        assert await models.positions()


async def test_missing_views_and_a_bad_address_are_named(database: str) -> None:
    pool = ReadModelsPool(database)
    with pytest.raises(SchemaMissingError):
        async with pool.read() as models:
            await models.rows("devices")
    with pytest.raises(BadDsnError):
        async with ReadModelsPool("postgresql://a:b/c@d/e?f#g:h").read() as models:
            await models.positions()


async def test_reads_continue_once_postgres_is_back(killable: KillablePostgres) -> None:
    pool = ReadModelsPool(killable.dsn, size=2)

    async def devices() -> list[ViewRow]:
        async with pool.read() as models:
            return await models.rows("devices")

    async def read_while_killed() -> None:
        async with pool.read() as models:
            killable.kill()
            while True:  # a session answers on until it sees that its server is dead
                await models.rows("devices")

    async with opened_database(killable.dsn) as opened:
        await opened.transaction(migrate)
    assert await devices() == []
    with pytest.raises(PostgresGoneError):
        await read_while_killed()
    with pytest.raises(PostgresGoneError):
        await devices()
    await asyncio.to_thread(killable.start)
    assert await devices() == []
    pool.close()


async def test_a_read_after_the_views_were_created_again_sees_the_new_ones(written: Written) -> None:
    pool, asked = ReadModelsPool(written.dsn, size=2), "SELECT * FROM dashboards.positions"
    async with pool.read() as models:
        assert "position" in (await models.fetch(asked))[0]
    await query(written.dsn, "DROP VIEW dashboards.positions")
    created = "CREATE VIEW dashboards.positions AS SELECT owner, topic FROM trackside.positions"
    await query(written.dsn, created)
    async with pool.read() as models:
        assert set((await models.fetch(asked))[0]) == {"owner", "topic"}
    pool.close()


class _RolledBackError(Exception):
    """Ends a transaction without its rows."""


@pytest.fixture
async def database(module_database: str) -> str:
    await query(module_database, "DROP TABLE IF EXISTS public.kept")
    await query(module_database, "CREATE TABLE public.kept (number int)")
    return module_database


async def test_a_transaction_outlives_one_of_another_task_that_is_rolled_back(database: str) -> None:
    begun, inside = asyncio.Event(), asyncio.Event()
    async with opened_database(database) as opened:

        async def rolled_back(connection: Connection) -> None:
            await connection.execute("INSERT INTO public.kept VALUES (1)")
            begun.set()
            with suppress(TimeoutError):  # the other one comes in only if nothing keeps it out
                await asyncio.wait_for(inside.wait(), 0.1)
            raise _RolledBackError

        async def insert(connection: Connection) -> None:
            await connection.execute("INSERT INTO public.kept VALUES (2)")
            inside.set()

        first = asyncio.create_task(opened.transaction(rolled_back))
        await begun.wait()
        await opened.transaction(insert)
        with pytest.raises(_RolledBackError):
            await first
    assert await query(database, "SELECT number FROM public.kept") == [(2,)]


@pytest.mark.parametrize("error", [ValueError("of the caller"), FileNotFoundError(2, "no such file")])
async def test_an_error_of_the_caller_is_not_taken_for_one_of_postgres(
    database: str, error: Exception
) -> None:
    """Neither for a malformed DSN nor for a server that is gone."""

    async def fails(connection: Connection) -> None:
        raise error

    async def in_a_read() -> None:
        async with open_repeatable_read(database, "public") as connection:
            await fails(connection)

    async def in_an_attempt() -> None:
        async with tentative_transaction(database, "public") as attempt:
            await fails(attempt.connection)

    async def in_a_transaction() -> None:
        async with opened_database(database) as opened:
            await opened.transaction(fails)

    for work in (in_a_read, in_an_attempt, in_a_transaction):
        with pytest.raises(type(error)) as caught:
            await work()
        assert caught.value is error


async def test_a_connection_that_breaks_in_the_block_is_one_of_postgres(database: str) -> None:
    with pytest.raises(PostgresGoneError):
        async with open_repeatable_read(database, "public"):
            raise ConnectionResetError


async def test_a_snapshot_is_taken_once_the_transaction_of_another_task_is_over(database: str) -> None:
    async with opened_database(database) as opened:

        async def add(connection: Connection) -> None:
            before = await connection.fetchval("SELECT count(*) FROM public.kept")
            await connection.execute("INSERT INTO public.kept VALUES ($1)", before)

        await asyncio.gather(*(opened.transaction(add, repeatable_read=at % 2 == 0) for at in range(20)))
    assert await query(database, "SELECT number FROM public.kept ORDER BY 1") == [(at,) for at in range(20)]


async def test_a_transaction_inside_of_one_of_the_same_task_is_refused_and_does_not_hang(
    database: str,
) -> None:
    async with asyncio.timeout(60), opened_database(database) as opened, opened_database(database) as other:

        async def nesting(connection: Connection) -> None:
            await opened.transaction(lambda inner: inner.execute("SELECT 1"))

        async def on_another(connection: Connection) -> object:
            return await other.transaction(lambda inner: inner.fetchval("SELECT 7"))

        with pytest.raises(NestedTransactionError, match="Database of its own"):
            await opened.transaction(nesting)
        assert await opened.transaction(on_another) == 7


async def test_a_task_that_is_cancelled_while_it_waits_breaks_no_connection(database: str) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    async with opened_database(database) as opened:

        async def holding(connection: Connection) -> object:
            begun.set()
            await release.wait()
            return await connection.fetchval("SELECT 1")

        first = asyncio.create_task(opened.transaction(holding))
        await begun.wait()
        waiting = asyncio.create_task(opened.transaction(lambda connection: connection.execute("SELECT 1")))
        await asyncio.wait([waiting], timeout=0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        release.set()
        assert await first == 1


async def test_the_next_task_goes_on_after_a_connection_that_was_lost(database: str) -> None:
    async with opened_database(database) as opened:
        begun = asyncio.Event()

        async def killed(connection: Connection) -> None:
            begun.set()
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

        first = asyncio.create_task(opened.transaction(killed))
        await begun.wait()
        assert await opened.transaction(lambda connection: connection.fetchval("SELECT 1")) == 1
        with pytest.raises(PostgresGoneError):
            await first
