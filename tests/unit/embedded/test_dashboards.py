import json
import re
import shlex
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from tests.house.source import ROOT
from tests.integration.embedded.dashboards.grafana_standin import expanded
from trackside.embedded.dashboards import provisioning
from trackside.embedded.dashboards.programs import find_grafana, find_prometheus
from trackside.embedded.dashboards.provisioning import DashboardAddresses, data_sources, shipped
from trackside.embedded.dashboards.servers import mount_commands
from trackside.embedded.errors import StackError
from trackside.embedded.postgres.reader import reader_dsn, without_password
from trackside.embedded.settings import DashboardSettings

AWKWARD = "p$HOME$$ä'/@:#"
PROVISIONED = ROOT / "deploy" / "grafana" / "provisioning"


@pytest.fixture(autouse=True)
def _nothing_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o755)
    return path


def home_of_grafana(home: Path) -> Path:
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "defaults.ini").touch()
    return home


def addresses(folder: Path, password: str = AWKWARD) -> DashboardAddresses:
    """Returns a stack of two workers, whose reader has this password."""
    (folder / "password").write_text(password)
    dsn = reader_dsn("postgresql://trackside:secret@127.0.0.1:5432/trackside", folder / "password")
    return DashboardAddresses({"worker": 20_001, "worker-2": 20_002}, 20_003, 20_004, dsn)


def test_a_prometheus_of_an_archive_is_found_and_a_wrong_folder_refused(tmp_path: Path) -> None:
    assert (find_prometheus(DashboardSettings()), find_grafana(DashboardSettings())) == (None, None)
    with pytest.raises(StackError, match="TRACKSIDE_PROMETHEUS_HOME"):
        find_prometheus(DashboardSettings(prometheus_home=str(tmp_path)))
    found = program(tmp_path / "prometheus")
    assert find_prometheus(DashboardSettings(prometheus_home=str(tmp_path))) == found


@pytest.mark.parametrize(("name", "command"), [("grafana", ["server"]), ("grafana-server", [])])
def test_a_grafana_of_an_archive_is_found_by_its_home(tmp_path: Path, name: str, command: list[str]) -> None:
    server = program(home_of_grafana(tmp_path) / "bin" / name)
    found = find_grafana(DashboardSettings(grafana_home=str(tmp_path)))
    assert found is not None and (found.argv, found.home) == ([str(server), *command], tmp_path)


def test_a_grafana_on_path_is_found_with_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = program(home_of_grafana(tmp_path / "home") / "bin" / "grafana")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "grafana").symlink_to(server)
    monkeypatch.setenv("PATH", str(tmp_path / "links"))
    found = find_grafana(DashboardSettings())
    assert found is not None and (found.argv, found.home) == ([str(server), "server"], tmp_path / "home")
    program(tmp_path / "bin" / "grafana")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("trackside.embedded.dashboards.programs.PACKAGE_HOME", tmp_path / "none")
    with pytest.raises(StackError, match="set TRACKSIDE_GRAFANA_HOME"):
        find_grafana(DashboardSettings())


@pytest.mark.parametrize("size", ["5 apples", "1kB"])
def test_a_retention_that_is_no_size_or_too_small_is_refused(size: str) -> None:
    with pytest.raises(ValidationError, match="expected"):
        DashboardSettings(prometheus_retention_size=size)


def test_a_password_of_any_characters_reaches_grafana_in_the_sources_that_boards_name(tmp_path: Path) -> None:
    template = yaml.safe_load((PROVISIONED / "datasources" / "trackside.yaml").read_text())
    (_, postgres) = expanded(data_sources(template, addresses(tmp_path)))["datasources"]
    assert postgres["secureJsonData"]["password"] == AWKWARD
    assert (postgres["url"], postgres["user"]) == ("127.0.0.1:5432", "trackside_dashboards")
    assert postgres["jsonData"]["database"] == "trackside"
    boards = [path.read_text() for path in (ROOT / "deploy" / "grafana" / "dashboards").glob("*.json")]
    named = {uid for board in boards for uid in re.findall(r'"uid": "(trackside-(?:prom|post)\w+)"', board)}
    template = yaml.safe_load((PROVISIONED / "datasources" / "trackside.yaml").read_text())
    assert {each["uid"] for each in template["datasources"]} == named != set()


def test_the_folder_names_no_variable_and_only_files_that_it_has(tmp_path: Path) -> None:
    folder = tmp_path / "da$h"
    provisioning.write(folder, addresses(tmp_path, "plain"))
    written = [path for path in folder.rglob("*") if path.is_file()]
    written = [path for path in written if path.suffix in (".yaml", ".yml")]
    texts = [path.read_text() for path in written if path.parent != folder / "rules"]
    assert not any(re.search(r"\$[A-Z_]{4,}", text) for text in texts)
    (provider,) = yaml.safe_load((folder / "provisioning/dashboards/trackside.yaml").read_text())["providers"]
    assert expanded(provider)["options"]["path"] == str(folder / "boards")
    shipped_boards = {path.name for path in (shipped("grafana") / "dashboards").glob("*.json")}
    assert {path.name for path in (folder / "boards").iterdir()} == shipped_boards
    variables = dict(line.split("=", 1) for line in (folder / "grafana.env").read_text().splitlines())
    paths = [value for value in variables.values() if value.startswith("/")]
    assert all(Path(path).exists() for path in paths) and len(paths) >= 1
    assert variables["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"


def test_what_an_earlier_release_has_written_is_removed(tmp_path: Path) -> None:
    provisioning.write(tmp_path / "dashboards", addresses(tmp_path))
    old = tmp_path / "dashboards" / "boards" / "old.json"
    old.write_text("{}")
    kept = (tmp_path / "dashboards" / "admin-password").read_text()
    provisioning.write(tmp_path / "dashboards", addresses(tmp_path))
    assert not old.exists()
    assert (tmp_path / "dashboards" / "admin-password").read_text() == kept


def test_processes_of_one_service_are_targets_of_one_service(tmp_path: Path) -> None:
    listed = provisioning.targets(addresses(tmp_path).services)
    labels = [{"instance": name, "service": "worker"} for name in ("worker", "worker-2")]
    assert [each["labels"] for each in listed] == labels


def test_a_folder_with_a_space_is_one_argument_of_a_printed_command(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "ports.json").write_text(json.dumps({"prometheus": 20_003}))
    commands = mount_commands(folder, DashboardSettings(), ["prometheus", "grafana"])
    files = folder / "dashboards"
    assert all(f"--volume={files}:{files}:ro" in shlex.split(command) for command in commands)


def test_a_dsn_is_shown_without_its_password() -> None:
    shown = without_password("postgresql://user:secret@host:5432/name?sslmode=require")
    assert shown == "postgresql://user@host:5432/name?sslmode=require"
    assert without_password("postgresql://host/name") == "postgresql://host/name"
