"""Transactions of tasks that share a Database: one at a time, never one inside of another."""

import asyncio
from contextlib import suppress

import pytest

from tests.integration.projections.harness import query
from trackside.projections.postgres import (
    Connection,
    NestedTransactionError,
    PostgresGoneError,
    open_repeatable_read,
    tentative_transaction,
)
from trackside.projections.postgres import database as opened_database


class _RolledBackError(Exception):
    """Ends a transaction without its rows."""


async def make_table(connection: Connection) -> None:
    await connection.execute("CREATE TABLE public.kept (number int)")


async def test_a_transaction_outlives_one_of_another_task_that_is_rolled_back(database: str) -> None:
    begun, inside = asyncio.Event(), asyncio.Event()
    async with opened_database(database) as opened:
        await opened.transaction(
            lambda connection: connection.execute("CREATE TABLE public.kept (number int)")
        )

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

    with pytest.raises(type(error)) as caught:
        async with open_repeatable_read(database, "public") as connection:
            await fails(connection)
    assert caught.value is error
    with pytest.raises(type(error)) as caught:
        async with tentative_transaction(database, "public") as attempt:
            await fails(attempt.connection)
    assert caught.value is error
    async with opened_database(database) as opened:
        with pytest.raises(type(error)) as caught:
            await opened.transaction(fails)
    assert caught.value is error


async def test_a_connection_that_breaks_in_the_block_is_one_of_postgres(database: str) -> None:
    with pytest.raises(PostgresGoneError):
        async with open_repeatable_read(database, "public"):
            raise ConnectionResetError


async def test_a_snapshot_is_taken_once_the_transaction_of_another_task_is_over(database: str) -> None:
    async with opened_database(database) as opened:
        await opened.transaction(
            lambda connection: connection.execute("CREATE TABLE public.kept (number int)")
        )

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
