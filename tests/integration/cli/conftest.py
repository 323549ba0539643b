"""Where the commands of a test read their rows, and an installation for all tests of this folder."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.integration import command_line
from tests.integration.installed import NOOP, processes_at, variables_of
from tests.service_processes import ServiceProcess
from tests.stack import Servers, fresh_database
from trackside.embedded.ports import free_ports
from trackside.eventlog.settings.settings import StackSettings

Tried = Callable[..., Awaitable[tuple[int, str, str]]]
Typed = Callable[..., Awaitable[str]]
NOOP_SEARCH = """
kind: search
task_type: noop
max_trials: {trials}
concurrency: {at_once}
seed: 3
tuner: {{name: random}}
space:
  value: {{type: uniform, low: 0, high: 1}}
  seconds: {{type: constant, value: {seconds}}}
"""
BENT = '''
from trackside.sdk import Task, trial


class Bent(Task):
    """Gains accuracy by width, and pays with latency; one width in four ends without a number."""

    def train(self, device):
        asked = trial.parameters()
        width, depth = asked["width"], asked["depth"]
        if width % 8 == 7:
            trial.result({"accuracy": float("nan"), "latency": 1.0})
            return
        trial.report(width / 32, step=0)
        trial.result({"accuracy": 1 - 1 / (width + depth), "latency": width * 2.0 + depth, "loss": 0.5})
'''
CATALOGUE = f"""
tasks:
  noop: {{entry: "noop:Noop", path: {NOOP.parent}}}
  bent: {{entry: "bent:Bent", path: .}}
"""


@pytest.fixture
def addresses(filled: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs a test in a new folder, with the rows of its module's `filled`, on a terminal of 100 columns."""
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", filled)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture
def store_address(addresses: None, store_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the commands find the store of the module, too."""
    monkeypatch.setenv("TRACKSIDE_STORE", str(store_folder))


@dataclass(frozen=True)
class Installation:
    """The settings and the processes of an installation, and where its dispatcher serves its health."""

    settings: StackSettings
    services: Mapping[str, ServiceProcess]
    dispatcher_port: int


@pytest.fixture(scope="package")
def running(stack: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Runs an installation; each test has streams of its own, and leaves no device drained."""
    folder, port = tmp_path_factory.mktemp("services"), free_ports(1)[0]
    (folder / "bent.py").write_text(BENT)
    (folder / "catalogue.yaml").write_text(CATALOGUE)
    with (
        fresh_database(stack.postgres_dsn) as database,
        processes_at(stack, database, folder, folder / "catalogue.yaml", {"dispatcher": port}) as found,
    ):
        yield Installation(*found, port)


@pytest.fixture
def settings(running: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StackSettings:
    """Runs a test in a new folder, against the installation that runs, on a terminal of 120 columns."""
    for name, value in variables_of(running.settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    return running.settings


@pytest.fixture
def tried(capsys: pytest.CaptureFixture[str]) -> Tried:
    """Returns a function that runs `trackside`: its exit code, stdout and stderr."""
    return partial(asyncio.to_thread, command_line.tried, capsys)


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Typed:
    """Returns a function that runs a command, which must end with 0: what it printed."""
    return partial(asyncio.to_thread, command_line.said, capsys)
