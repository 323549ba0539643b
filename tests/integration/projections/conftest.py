"""Fixtures: a server for the session, a database for a test."""

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.integration.projections.server import Server, new_server, remove
from trackside.contracts.ids import new_id


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Gives a Postgres of these tests' own."""
    started = new_server()
    yield started
    remove(started)


@pytest.fixture
async def dsn(server: Server) -> AsyncIterator[str]:
    """Gives the address of an empty database."""
    name = new_id("t").replace("-", "_")
    admin = await asyncpg.connect(server.dsn)
    await admin.execute(f"CREATE DATABASE {name}")
    yield server.dsn.replace("/postgres?", f"/{name}?")
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()
