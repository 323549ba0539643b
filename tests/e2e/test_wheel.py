"""The wheel holds all that Trackside needs: it is installed alone, with no clone around and without torch."""

import os
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from urllib.request import urlopen

import pytest
from deploy.environment import cache_folder, say
from deploy.find_uv import find

from tests.e2e.harness import UserFolder, output_of, ran

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[2]
TREE = ("libs", "services")


def run(command: list[str], environment: Mapping[str, str] = os.environ) -> str:
    """Runs a command in the tree, which must end with 0, and returns what it printed."""
    return output_of(ran(command, ROOT, environment, timeout_s=900))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the wheel, as `make wheels` does."""
    folder = tmp_path_factory.mktemp("dist")
    run(["make", f"PYTHON={sys.executable}", f"WHEELS={folder}", "wheels"])
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs the wheel into a new environment, with the dependencies of uv.lock and nothing else."""
    place = tmp_path_factory.mktemp("installed") / "environment"
    uv = str(find(cache_folder(), ROOT / "uv.lock", say))
    run([uv, "venv", "--quiet", "--python", sys.executable, str(place)])
    outer = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    only_dependencies = ["--locked", "--no-default-groups", "--no-install-project"]
    run([uv, "sync", "--quiet", *only_dependencies], {**outer, "UV_PROJECT_ENVIRONMENT": str(place)})
    run([uv, "pip", "install", "--quiet", "--no-deps", "--python", str(place / "bin" / "python"), str(wheel)])
    return place / "bin" / "trackside"


def test_the_wheel_holds_every_file_of_the_packages_and_no_test(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    packages = [path for folder in TREE for path in (ROOT / folder).glob("*/src/trackside")]
    wanted = {
        path.relative_to(package.parent).as_posix()
        for package in packages
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert wanted - names == set()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"trackside"}
    shipped = {name for name in names - wanted if ".dist-info/" not in name}
    assert {name.rpartition("/")[0] for name in shipped} == {
        "trackside/cli/examples/digits",
        "trackside/cli/examples/first_search",
        "trackside/embedded/dashboards/grafana/dashboards",
        "trackside/embedded/dashboards/grafana/provisioning/dashboards",
        "trackside/embedded/dashboards/grafana/provisioning/datasources",
        "trackside/embedded/dashboards/prometheus",
        "trackside/embedded/dashboards/prometheus/rules",
    }
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.long
def test_the_demo_runs_from_the_wheel_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    folder = UserFolder(tmp_path, {"PYTHONPATH": ""}, command=installed)
    ended = folder.run("demo", timeout_s=800)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert ended.stdout.startswith("torch and scikit-learn are not both installed")
    assert "pip install 'trackside[torch]'" in ended.stdout
    assert re.search(r"replay: \d+ events, \d+ rows, equal", ended.stdout)
    best = re.search(r"^best: ([0-9.]+) ", ended.stdout, re.MULTILINE)
    assert best is not None and float(best[1]) <= 0.11
    assert "Traceback" not in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".trackside"]
    assert folder.processes() == []


def test_a_first_search_is_written_and_runs_and_outlives_a_stop_of_its_stack(
    installed: Path, tmp_path: Path, leash: Path
) -> None:
    folder = UserFolder(tmp_path, {"PYTHONPATH": ""}, command=installed)
    folder.run_ok("init", "first")
    first = UserFolder(tmp_path / "first", {"PYTHONPATH": ""}, command=installed)
    up = ("up", "--leash", str(leash))
    first.run_ok(*up)
    try:
        with urlopen(first.json_output("status")["console"], timeout=60) as page:
            assert "trackside submit search.yaml" in page.read().decode(), "how to begin"
        assert "first-1 DONE: 20 trials" in first.run_ok("submit", "search.yaml", "--id", "first-1", "--wait")
        shown = first.json_output("show", "first-1")
        first.run_ok("down")
        assert first.processes() == [] and first.run("status").returncode == 1
        first.run_ok(*up)
        assert first.json_output("show", "first-1") == shown
        assert "answered" in first.run_ok("ping")
    finally:
        first.run_ok("down")
    assert {trial["status"] for trial in shown["trials"]} <= {"SUCCEEDED", "EARLY_STOPPED"}
    assert min(each["value"] for each in shown["trials"] if each["status"] == "SUCCEEDED") < 0.11
