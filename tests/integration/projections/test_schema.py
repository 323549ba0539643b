"""The schema, made once by one service at a time and seen by readers as views alone, and its address."""

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.integration.projections.harness import query
from tests.stack import Servers
from trackside.eventlog.settings.settings import StackSettings, read_settings
from trackside.projections.database.positions import (
    OvertakenError,
    RewoundError,
    ensure_positions,
    move_position,
    read_positions,
)
from trackside.projections.database.postgres import (
    BadDsnError,
    Connection,
    PostgresGoneError,
    SchemaMissingError,
    address_of,
    connect,
    copy_new,
)
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.tables.metric_tables import POINTS
from trackside.projections.writing.definitions import NewerSchemaError
from trackside.projections.writing.migrate import migrate, migrations

PLACE = ("trackside.metrics", 2)


async def test_services_that_start_together_make_the_schema_once(database: str) -> None:
    async def start() -> None:
        async with opened_database(database) as opened:
            await opened.transaction(migrate)

    await asyncio.gather(*(start() for _ in range(4)))
    made = [(0,), *((step.number,) for step in migrations())]
    assert await query(database, "SELECT number FROM migrations ORDER BY 1") == made


async def test_the_reader_sees_only_the_views(tables: str) -> None:
    connection = await asyncpg.connect(tables)
    try:
        await connection.execute("SET ROLE trackside_reader")
        for (view,) in await query(tables, "SELECT viewname FROM pg_views WHERE schemaname = 'dashboards'"):
            await connection.fetch(f"SELECT * FROM dashboards.{view}")  # noqa: S608
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT * FROM trackside.searches")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute("CREATE TABLE dashboards.mine (a int)")
    finally:
        await connection.close()


async def test_a_schema_of_a_later_release_is_refused(tables: str) -> None:
    async with opened_database(tables) as opened:
        await query(tables, "INSERT INTO migrations VALUES (999, 'later', '')")
        with pytest.raises(NewerSchemaError, match="migration 999"):
            await opened.transaction(migrate)


async def test_rows_and_position_stand_together_or_not_at_all(tables: str) -> None:
    async with opened_database(tables) as opened:

        async def moved_then_killed(connection: Connection) -> None:
            await ensure_positions(connection, "summary-indexer", [PLACE])
            await move_position(connection, "summary-indexer", PLACE, 0, 5)
            await copy_new(connection, POINTS, [(1, 1, 1, 1.0, None)])
            pid = await connection.fetchval("SELECT pg_backend_pid()")
            await query(tables, "SELECT pg_terminate_backend($1)", pid)
            await connection.fetch("SELECT 1")

        with pytest.raises(PostgresGoneError):
            await opened.transaction(moved_then_killed)
    assert await query(tables, "SELECT * FROM positions") == []
    assert await query(tables, "SELECT * FROM metric_points") == []


async def test_a_position_is_a_fence(tables: str) -> None:
    async with opened_database(tables) as opened:

        async def move(base: int, end: int) -> None:
            async def work(connection: Connection) -> None:
                await ensure_positions(connection, "summary-indexer", [PLACE])
                await move_position(connection, "summary-indexer", PLACE, base, end)

            await opened.transaction(work)

        await move(0, 10)
        with pytest.raises(OvertakenError) as overtaken:
            await move(5, 12)
        assert overtaken.value.position == 10
        with pytest.raises(RewoundError):
            await move(11, 12)
        positions = await opened.transaction(lambda c: read_positions(c, "summary-indexer"))
        assert positions == {PLACE: 10}


async def test_the_first_of_repeated_points_stays(tables: str) -> None:
    async with opened_database(tables) as opened:
        first = [(1, step, step, 0.5, None) for step in range(3)]
        again = [(1, step, 9, 9.0, None) for step in range(2, 5)]
        assert await opened.transaction(lambda c: copy_new(c, POINTS, first)) == first
        new = await opened.transaction(lambda c: copy_new(c, POINTS, [*again, (1, 3, 8, 8.0, None)]))
        assert new == again[1:]
    points = await query(tables, "SELECT step, value FROM metric_points ORDER BY step")
    assert points == [(0, 0.5), (1, 0.5), (2, 0.5), (3, 9.0), (4, 9.0)]


async def test_missing_tables_and_a_missing_database_are_told_apart(database: str) -> None:
    async with opened_database(database) as opened:
        with pytest.raises(SchemaMissingError, match="positions"):
            await opened.transaction(lambda c: read_positions(c, "dispatcher"))
    async with opened_database(database + "x") as opened:
        with pytest.raises(PostgresGoneError, match="create the database"):
            await opened.transaction(migrate)


@pytest.fixture
def service_file(stack: Servers, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    parts = urlsplit(database)
    path = tmp_path / "services"
    path.write_text(
        f"[trackside]\nhost={parts.hostname}\nport={parts.port}\nuser={parts.username}\n"
        f"dbname={parts.path.removeprefix('/')}\n"
    )
    passwords = tmp_path / "passwords"
    passwords.write_text(f"{parts.hostname}:{parts.port}:*:{parts.username}:{parts.password}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGSERVICEFILE", str(path))
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", f"postgresql://?service=trackside&passfile={passwords}")
    return path


async def test_a_service_of_the_service_file_is_an_address(service_file: Path, database: str) -> None:
    dsn = read_settings(StackSettings).postgres_dsn
    async with opened_database(dsn) as opened:
        found = await opened.transaction(lambda connection: connection.fetchval("SELECT current_database()"))
    assert found == urlsplit(database).path.removeprefix("/")


async def test_a_server_without_tls_is_not_used_where_the_address_requires_it(
    stack: Servers, database: str
) -> None:
    with pytest.raises(PostgresGoneError, match="SSL"):
        async with opened_database(f"{database}?sslmode=require") as opened:
            await opened.transaction(lambda connection: connection.fetchval("SELECT 1"))


def test_an_address_in_a_service_file_is_named_by_its_service() -> None:
    assert address_of("postgresql://?service=trackside") == "service trackside of the service file"


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://trackside:" + "hun/ter2@127.0.0.1/trackside",
        "postgresql://trackside:" + "hun?ter2@127.0.0.1/trackside",
        "postgresql://trackside:" + "hun#ter2@127.0.0.1/trackside",
        "postgres//trackside:" + "ter2@127.0.0.1/trackside",
        "postgresql://trackside:" + "ter2@127.0.0.1:ter2/trackside",
    ],
)
async def test_a_malformed_dsn_is_refused_without_an_echo(dsn: str) -> None:
    with pytest.raises(BadDsnError, match="expected postgresql://") as refused:
        await connect(dsn, "trackside")
    assert "ter2" not in str(refused.value)
    assert refused.value.__cause__ is None and refused.value.__suppress_context__
