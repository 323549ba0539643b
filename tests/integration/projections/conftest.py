"""Fixtures: an empty log, reads of the module's database, a Postgres that may be killed."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.projections.postgres_server import KillablePostgres, remove_postgres, start_postgres
from tests.stack import fresh_database
from trackside.eventlog.memory import MemoryLog
from trackside.projections.reading.read_pool import ReadModelsPool


@pytest.fixture
async def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
async def pool(module_tables: str) -> AsyncIterator[ReadModelsPool]:
    """Yields a pool of two connections to the database that the tests of the module share."""
    opened = ReadModelsPool(module_tables, size=2)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def killable_server() -> Iterator[KillablePostgres]:
    server = start_postgres()
    yield server
    remove_postgres(server)


@pytest.fixture
def killable(killable_server: KillablePostgres) -> Iterator[KillablePostgres]:
    """Yields it with an empty database; it may be killed, and is started again after the test."""
    killable_server.database = "postgres"
    with fresh_database(killable_server.dsn) as dsn:
        killable_server.database = dsn.partition("?")[0].rpartition("/")[2]
        yield killable_server
        killable_server.start()
