"""`trackside up --dashboards`: the real Prometheus, and a stand-in for Grafana, which can't be had here."""

import json
import re
import shlex
import shutil
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.e2e.harness import UserFolder
from tests.integration.embedded.dashboards.homes import grafana_home
from tests.integration.projections.harness import query
from tests.polling import poll_until_sync
from trackside.cli.commands import dashboards, stack_process
from trackside.embedded import stack
from trackside.embedded.folder import ProcessStatus, read_status
from trackside.embedded.joining import add_dashboards
from trackside.embedded.options import ServiceSpec, StackOptions
from trackside.embedded.postgres.server import remove_data
from trackside.embedded.settings import DashboardSettings
from trackside.embedded.supervision.live_status import current_status
from trackside.projections.database.postgres import connect
from trackside.projections.database.reader_login import LoginRefusedError, ensure_login

pytestmark = pytest.mark.timeout(600)

SERVICES = {"dispatcher", "scheduler"}


def add(folder: UserFolder, grafana: str = "") -> None:
    """Does what `up --dashboards` does for a stack that runs, which also waits for its worker."""
    settings = DashboardSettings(grafana_home=grafana)
    running = stack.load(folder.path / ".trackside")
    dashboards.say(add_dashboards(running, settings, lambda _: None), settings)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[UserFolder]:
    """Returns a folder whose stack runs, without dashboards; no test runs a task, so it has no worker."""
    folder = UserFolder(tmp_path_factory.mktemp("dashboards"))
    services = [ServiceSpec(name) for name in sorted(SERVICES)]
    options = StackOptions(services, setup=stack_process.SETUP, durable=False, leash=leash)
    stack.start(folder.path / ".trackside", options)
    yield folder
    folder.run_ok("down")
    assert folder.processes() == []
    remove_data(folder.path / ".trackside" / "postgres")


@pytest.fixture(scope="module")
def reader(home: UserFolder) -> str:
    """Returns the DSN that stack.json has for clients that only read."""
    return read_status(home.path / ".trackside").reader_dsn


async def test_any_client_logs_in_as_the_reader_with_its_password_and_sees_only_the_views(
    reader: str,
) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(reader, password="another")
    connection = await asyncpg.connect(reader)
    try:
        assert await connection.fetchval("SELECT count(*) FROM searches") == 0
        visible = await connection.fetch(
            "SELECT DISTINCT table_schema FROM information_schema.tables "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
        )
        assert [row["table_schema"] for row in visible] == ["dashboards"]
        assert await connection.fetchval("SHOW statement_timeout") == "15s"
        with pytest.raises(asyncpg.ReadOnlySQLTransactionError):
            await connection.execute("CREATE TEMPORARY TABLE mine (a int)")
        await connection.execute("SET default_transaction_read_only = off")
        for statement in ("SELECT * FROM trackside.streams", "CREATE TABLE dashboards.mine (a int)"):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(statement)
    finally:
        await connection.close()


async def test_a_user_who_may_create_no_role_is_told_who_can(home: UserFolder) -> None:
    await query(
        read_status(home.path / ".trackside").postgres_dsn, "CREATE ROLE limited LOGIN PASSWORD 'limited'"
    )
    address = read_status(home.path / ".trackside").postgres_dsn.rpartition("@")[2]
    connection = await connect(f"postgresql://limited:limited@{address}", "trackside")
    try:
        with pytest.raises(LoginRefusedError, match="CREATE ROLE trackside_dashboards LOGIN"):
            async with connection.transaction():
                await ensure_login(connection, "another")
    finally:
        await connection.close()


def test_passwords_are_shown_in_the_owners_files_only(home: UserFolder, reader: str) -> None:
    password = reader.partition(":")[2].partition(":")[2].partition("@")[0]
    file = home.path / ".trackside" / "postgres" / "reader-password"
    assert (file.read_text().strip(), stat.S_IMODE(file.stat().st_mode)) == (password, 0o600)
    shown = home.run("status", "--json").stdout
    assert password not in shown
    assert json.loads(shown)["reader"] == reader.replace(f":{password}", "")
    port = read_status(home.path / ".trackside").health_port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/status") as answer:
        assert password not in answer.read().decode()


def test_without_their_programs_all_is_written_and_a_command_for_each_printed(
    home: UserFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    add(home)
    printed = capsys.readouterr().out
    folder = home.path / ".trackside" / "dashboards"
    commands = [shlex.split(line) for line in printed.splitlines() if line.startswith("  ")]
    assert [command[0] for command in commands] == ["docker", "docker"]
    assert all(f"--volume={folder}:{folder}:ro" in command for command in commands)
    assert f"--config.file={folder}/prometheus.yml" in commands[0]
    assert f"--env-file={folder}/grafana.env" in commands[1]
    assert "Grafana is not on PATH" in printed
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    assert {path.name for path in written} >= {"prometheus.yml", "targets.json", "trackside.yaml"}
    assert not {"prometheus", "grafana"} & processes(home).keys()


@pytest.fixture(scope="module")
def with_dashboards(home: UserFolder, tmp_path_factory: pytest.TempPathFactory) -> UserFolder:
    """Returns the folder of the stack, with the real Prometheus and the stand-in for Grafana added."""
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus is on PATH")
    add(home, str(grafana_home(tmp_path_factory.mktemp("programs") / "grafana")))
    return home


def processes(folder: UserFolder) -> dict[str, ProcessStatus]:
    """Returns the processes of the stack."""
    return current_status(folder.path / ".trackside").processes


def report_of(folder: UserFolder) -> dict[str, Any]:
    """Returns what the stand-in found."""
    port = processes(folder)["grafana"].port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/report", timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def test_grafana_is_given_data_sources_that_answer_and_the_dashboards(with_dashboards: UserFolder) -> None:
    def scraped() -> bool:  # Prometheus scrapes each target within its interval of 5 s
        return {each["service"] for each in report_of(with_dashboards)["targets"]} == SERVICES

    poll_until_sync(scraped)
    found = report_of(with_dashboards)
    assert {each["job"] for each in found["targets"]} == {"trackside"}
    assert {each["instance"] for each in found["targets"]} == SERVICES
    assert found["argv"][0] == "server"
    assert found["types"] == {"trackside-prometheus": "prometheus", "trackside-postgres": "postgres"}
    assert found["postgres"]["user"] == "trackside_dashboards"
    assert found["postgres"]["queries"] > 0 and found["boards"] > 0
    settings = found["settings"]
    assert settings["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"
    assert settings["GF_PATHS_DATA"] == str(with_dashboards.path / ".trackside" / "grafana")


def test_the_rules_are_loaded(with_dashboards: UserFolder) -> None:
    port = processes(with_dashboards)["prometheus"].port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/rules", timeout=60) as answer:
        groups = json.load(answer)["data"]["groups"]
    files = sorted((with_dashboards.path / ".trackside" / "dashboards" / "rules").glob("*.yml"))
    assert sorted({group["file"] for group in groups}) == [str(path) for path in files]


def test_status_lists_both_and_a_second_start_leaves_them_running(
    with_dashboards: UserFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {name: status.pid for name, status in processes(with_dashboards).items()}
    add(with_dashboards)
    printed = capsys.readouterr().out
    assert {name: status.pid for name, status in processes(with_dashboards).items()} == before
    shown = with_dashboards.run("status").stdout
    for name in ("prometheus", "grafana"):
        port = processes(with_dashboards)[name].port
        assert f"{name.title()} is at http://127.0.0.1:{port}" in printed
        assert re.search(rf"^{name} +ready +{before[name]} +[01] +{port} ", shown, re.MULTILINE)
