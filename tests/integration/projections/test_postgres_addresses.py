"""The address of the read models may be in a service file, its password in a password file, as for psql."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.stack import Servers
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.projections.postgres import PostgresGoneError, address_of
from trackside.projections.postgres import database as opened_database


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
