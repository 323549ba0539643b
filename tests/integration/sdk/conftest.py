"""An installation for all tests of this folder, which find it in their environment."""

from collections.abc import Iterator

import pytest

from tests.house.source import ROOT
from tests.integration.installed import NOOP, processes, variables_of
from tests.stack import Servers, fresh_database
from trackside.eventlog.settings.settings import StackSettings
from trackside.sdk import Client
from trackside.sdk.blocking import BlockingClient

EXAMPLE = ROOT / "deploy" / "examples" / "pipeline_digits"
TASKS = """
import threading
from trackside.sdk import Task, trial

class Sums(Task):
    def train(self, device):
        asked = trial.parameters()
        if asked.get("fails"):
            raise ValueError("as asked")
        if asked.get("waits"):
            threading.Event().wait()
        return {"sum": sum(asked.get("of", []))}
"""
MORE = f"""
  sums: {{entry: 'sums:Sums', path: .}}
  noop: {{entry: 'noop:Noop', path: {NOOP.parent}}}
"""


@pytest.fixture(scope="package")
def installed(stack: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackSettings]:
    """Runs an installation that knows the tasks of the example, `sums` and `noop`."""
    folder = tmp_path_factory.mktemp("services")
    (folder / "store").mkdir()
    (folder / "sums.py").write_text(TASKS)
    catalogue = folder / "catalogue.yaml"
    digits = (EXAMPLE / "catalogue.yaml").read_text("utf-8").replace("path: .", f"path: {EXAMPLE}")
    catalogue.write_text(digits + MORE)
    store = {"TRACKSIDE_STORE": str(folder / "store")}
    with (
        fresh_database(stack.postgres_dsn) as database,
        processes(stack, database, folder, catalogue, **store) as (settings, _),
    ):
        yield settings


@pytest.fixture
def settings(installed: StackSettings, monkeypatch: pytest.MonkeyPatch) -> StackSettings:
    """Returns the settings of the installation, which are in the environment of the test."""
    for name, value in variables_of(installed).items():
        monkeypatch.setenv(name, value)
    return installed


@pytest.fixture
def client(settings: StackSettings) -> Iterator[BlockingClient]:
    with Client.blocking(settings.kafka_bootstrap, settings.topic_prefix) as client:
        yield client
