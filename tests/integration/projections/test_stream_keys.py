"""The keys of encrypted streams in Postgres: made before a stream begins, read by who may, and deleted."""

import asyncio
import base64
from contextlib import closing
from functools import partial
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tests.integration.projections.postgres_server import KillablePostgres
from trackside.eventlog.background import Background
from trackside.eventlog.errors import TransientError
from trackside.projections.database.postgres import database as opened
from trackside.projections.writing.late_stream_keys import LateStreamKeys
from trackside.projections.writing.stream_keys import NewStreamKeys, PostgresStreamKeys, delete_keys


async def made(dsn: str, *streams: str) -> list[bytes]:
    """Makes the keys of streams as a dispatcher does; returns their public keys."""
    new, awake, background = NewStreamKeys(dsn), asyncio.Event(), Background()
    background.spawn(new.run(awake.set))
    try:
        assert [new.take(stream) for stream in streams] == [""] * len(streams)
        while not all(new.take(stream) for stream in streams):
            await asyncio.wait_for(awake.wait(), 60)
            awake.clear()
        found = [base64.b64decode(new.take(stream)) for stream in streams]
        for stream in streams:
            new.begun(stream)
        return found
    finally:
        await background.close()


async def forget(dsn: str, stream: str) -> None:
    async with opened(dsn) as connected:
        await connected.transaction(partial(delete_keys, streams=[stream]))


async def test_a_key_can_be_read_until_its_stream_is_forgotten(database: str) -> None:
    first, second = await made(database, "first", "second")
    with closing(PostgresStreamKeys(database)) as keys:
        found = await keys.load([first, second, b"of no stream"])
        assert found.keys() == {first, second}
        assert {len(each) for each in found.values()} == {32}
        await forget(database, "first")
        assert (await keys.load([first, second])).keys() == {second}


async def test_two_dispatchers_make_a_key_each_and_both_are_deleted(database: str) -> None:
    (one,), (other,) = await made(database, "same"), await made(database, "same")
    with closing(PostgresStreamKeys(database)) as keys:
        assert (await keys.load([one, other])).keys() == {one, other}
        await forget(database, "same")
        assert await keys.load([one, other]) == {}


async def test_where_no_stream_was_encrypted_there_are_no_keys(database: str) -> None:
    with closing(LateStreamKeys(lambda: database)) as keys:
        assert await keys.load([b"x" * 32]) == {}
        await forget(database, "any")
    assert await LateStreamKeys(lambda: None).load([b"x" * 32]) == {}


async def test_a_user_without_the_right_to_keys_has_none(database: str) -> None:
    (public,) = await made(database, "first")
    connection = await asyncpg.connect(database)
    role = f"viewer_{connection.get_server_pid()}"
    try:
        await connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'viewer'")
        parts = urlsplit(database)
        host = parts.netloc.rpartition("@")[2]
        with closing(PostgresStreamKeys(urlunsplit(parts._replace(netloc=f"{role}:viewer@{host}")))) as keys:
            assert await keys.load([public]) == {}
    finally:
        await connection.execute(f"DROP ROLE {role}")
        await connection.close()


async def test_an_outage_of_postgres_is_no_missing_key(killable: KillablePostgres) -> None:
    (public,) = await made(killable.dsn, "first")
    with closing(PostgresStreamKeys(killable.dsn)) as keys:
        killable.kill()
        with pytest.raises(TransientError):
            await keys.load([public])
        await asyncio.to_thread(killable.start)
        assert (await keys.load([public])).keys() == {public}
