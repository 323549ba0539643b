"""The keys of encrypted streams in Postgres: made before a stream begins, read by who may, and deleted."""

import asyncio
import base64
from functools import partial
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from tests.integration.projections.postgres_server import remove_postgres, start_postgres
from trackside.eventlog.background import Background
from trackside.eventlog.errors import TransientError
from trackside.projections.late_stream_keys import LateStreamKeys
from trackside.projections.postgres import database as opened
from trackside.projections.stream_keys import NewStreamKeys, PostgresStreamKeys, delete_keys


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


async def test_a_key_can_be_read_until_its_stream_is_forgotten(database: str) -> None:
    first, second = await made(database, "first", "second")
    keys = PostgresStreamKeys(database)
    try:
        found = await keys.load([first, second, b"of no stream"])
        assert found.keys() == {first, second}
        assert {len(each) for each in found.values()} == {32}
        async with opened(database) as connected:
            await connected.transaction(partial(delete_keys, streams=["first"]))
        assert (await keys.load([first, second])).keys() == {second}
    finally:
        keys.close()


async def test_two_dispatchers_make_a_key_each_and_both_are_deleted(database: str) -> None:
    (one,), (other,) = await made(database, "same"), await made(database, "same")
    keys = PostgresStreamKeys(database)
    try:
        assert (await keys.load([one, other])).keys() == {one, other}
        async with opened(database) as connected:
            await connected.transaction(partial(delete_keys, streams=["same"]))
        assert await keys.load([one, other]) == {}
    finally:
        keys.close()


async def test_where_no_stream_was_encrypted_there_are_no_keys(database: str) -> None:
    keys = LateStreamKeys(lambda: database)
    try:
        assert await keys.load([b"x" * 32]) == {}
        async with opened(database) as connected:
            await connected.transaction(partial(delete_keys, streams=["any"]))
    finally:
        keys.close()
    assert await LateStreamKeys(lambda: None).load([b"x" * 32]) == {}


async def test_a_user_without_the_right_to_keys_has_none(database: str) -> None:
    (public,) = await made(database, "first")
    connection = await asyncpg.connect(database)
    role = f"viewer_{connection.get_server_pid()}"
    try:
        await connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'viewer'")
        parts = urlsplit(database)
        host = parts.netloc.rpartition("@")[2]
        keys = PostgresStreamKeys(urlunsplit(parts._replace(netloc=f"{role}:viewer@{host}")))
        try:
            assert await keys.load([public]) == {}
        finally:
            keys.close()
    finally:
        await connection.execute(f"DROP ROLE {role}")
        await connection.close()


async def test_an_outage_of_postgres_is_no_missing_key() -> None:
    server = await asyncio.to_thread(start_postgres)
    try:
        (public,) = await made(server.dsn, "first")
        keys = PostgresStreamKeys(server.dsn)
        server.kill()
        with pytest.raises(TransientError):
            await keys.load([public])
        await asyncio.to_thread(server.start)
        assert (await keys.load([public])).keys() == {public}
        keys.close()
    finally:
        await asyncio.to_thread(remove_postgres, server)
