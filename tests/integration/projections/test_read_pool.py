"""Reads that run at the same time, each of one snapshot whose positions it knows."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.integration.projections.harness import TOPICS, query, write_rows
from tests.integration.projections.postgres_server import remove_postgres, start_postgres
from tests.unit.projections.given import write_small_history
from trackside.eventlog.memory import MemoryLog
from trackside.projections import read_pool
from trackside.projections.migrate import migrate
from trackside.projections.postgres import (
    BadDsnError,
    PostgresGoneError,
    SchemaMissingError,
    StatementTimeoutError,
)
from trackside.projections.postgres import database as opened_database
from trackside.projections.read_pool import ReadModelsPool
from trackside.projections.reads import queried_rows, row_of_stream


@pytest.fixture
async def written(database: str) -> str:
    """Returns a database with the rows of a small log."""
    log = MemoryLog()
    await write_small_history(log, TOPICS)
    await write_rows(log, database)
    return database


@pytest.fixture
def pool(written: str) -> Iterator[ReadModelsPool]:
    """Yields a pool of two connections to these rows."""
    opened = ReadModelsPool(written, size=2)
    yield opened
    opened.close()


async def test_a_read_answers_named_queries_and_knows_its_positions(
    pool: ReadModelsPool, written: str
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
    stored = await query(written, "SELECT owner, topic, partition, position FROM positions")
    assert positions == {(owner, topic, partition): position for owner, topic, partition, position in stored}
    assert any(owner == "dispatcher" and positions[owner, topic, part] for owner, topic, part in positions)


async def test_rows_and_positions_of_a_read_are_of_one_moment(pool: ReadModelsPool, written: str) -> None:
    async with pool.read() as models:
        before = await models.positions()
        await query(written, "UPDATE positions SET position = position + 1")
        await query(written, "UPDATE searches SET status = 'later'")
        assert await models.positions() == before
        assert {row["status"] for row in await models.rows("search.newest", 9)} == {"DONE", "NO_MORE_TRIAL"}
        async with pool.read() as others:
            assert {row["status"] for row in await others.rows("search.newest", 9)} == {"later"}


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
    written: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_pool, "_SETTINGS", "SET statement_timeout = 50")
    pool = ReadModelsPool(written, size=1)
    with pytest.raises(StatementTimeoutError):
        async with pool.read() as models:
            await models.fetch("SELECT pg_sleep(10)")
    async with pool.read() as models:
        assert await models.positions()
    pool.close()


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


async def test_reads_continue_once_postgres_is_back() -> None:
    server = start_postgres()
    pool = ReadModelsPool(server.dsn, size=2)

    async def read_while_killed() -> None:
        async with pool.read() as models:
            server.kill()
            while True:  # a session answers on until it sees that its server is dead
                await models.rows("devices")

    try:
        async with opened_database(server.dsn) as opened:
            await opened.transaction(migrate)
        async with pool.read() as models:
            assert await models.rows("devices") == []
        with pytest.raises(PostgresGoneError):
            await read_while_killed()
        with pytest.raises(PostgresGoneError):
            async with pool.read() as models:
                await models.rows("devices")
        await asyncio.to_thread(server.start)
        async with pool.read() as models:
            assert await models.rows("devices") == []
    finally:
        pool.close()
        remove_postgres(server)


async def test_a_read_after_the_views_were_created_again_sees_the_new_ones(
    pool: ReadModelsPool, written: str
) -> None:
    async with pool.read() as models:
        assert "position" in (await models.fetch("SELECT * FROM dashboards.positions"))[0]
    await query(written, "DROP VIEW dashboards.positions")
    await query(written, "CREATE VIEW dashboards.positions AS SELECT owner, topic FROM trackside.positions")
    async with pool.read() as models:
        assert set((await models.fetch("SELECT * FROM dashboards.positions"))[0]) == {"owner", "topic"}
