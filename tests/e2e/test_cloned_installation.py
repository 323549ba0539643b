"""An installation that runs is backed up and cloned; the clone runs next to it and does not touch it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import UserFolder

pytestmark = pytest.mark.timeout(900)

TASKS = """
from threading import Event

from trackside.sdk import Task, trial


class Parabola(Task):
    def train(self, device):
        Event().wait(0.3)  # so that the search runs through the whole test, and leaves it the processor
        trial.result(-((trial.parameters()["x"] - 0.3) ** 2))
"""
SEARCH = """
kind: search
task_type: parabola
max_trials: TRIALS
concurrency: 1
tuner: {name: random}
space:
  x: {type: uniform, low: 0, high: 1}
"""


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[UserFolder, UserFolder]]:
    """Gives the folder of an installation with tasks, and that of its clone, which is not there yet."""
    first, clone = UserFolder(tmp_path / "first"), UserFolder(tmp_path / "clone")
    first.path.mkdir()
    (first.path / "mine.py").write_text(TASKS)
    (first.path / "catalogue.yaml").write_text("tasks:\n  parabola: {entry: mine:Parabola, path: .}\n")
    for name, trials in (("short", 3), ("long", 1_000)):
        (first.path / f"{name}.yaml").write_text(SEARCH.replace("TRIALS", str(trials)))
    yield first, clone
    for folder in (first, clone):
        if folder.path.exists():
            folder.run("down")


def installation(folder: UserFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.path / ".trackside" / "installation.json").read_text())
    return found


def stack_of(folder: UserFolder) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder.path / ".trackside" / "stack.json").read_text())
    return found


def test_a_clone_of_a_running_installation_has_its_data_and_runs_next_to_it(
    folders: tuple[UserFolder, UserFolder], leash: Path
) -> None:
    first, clone = folders
    first.run_ok("up", "--slots", "1", "--leash", str(leash))
    first.run_ok("submit", "short.yaml", "--id", "short", "--wait")
    first.run_ok("submit", "long.yaml", "--id", "long")

    backups = [first.json_output("backup", "../backup") for _ in range(2)]
    assert [made["runs"] for made in backups] == [1, 2]
    assert backups[1]["records"] > 0  # the search ran meanwhile
    assert backups[0]["separate"] == [f"the code of tasks in {first.path}"]
    settings = json.loads((first.path.parent / "backup" / "settings" / "settings.json").read_text())
    assert settings["slots"] == 1

    made = first.json_output("clone", "../clone")
    assert made["first"] == installation(first)["id"] != installation(clone)["id"]
    refused = first.run("clone", "../clone")
    assert refused.returncode == 2 and "has an installation already" in refused.stderr

    before = stack_of(first)
    clone.run_ok("up", "--slots", "1", "--leash", str(leash))
    assert stack_of(first)["supervisor_pid"] == before["supervisor_pid"]
    assert clone.json_output("show", "short") == first.json_output("show", "short")
    checked = clone.json_output("upgrade", "--check")
    assert not checked["changes"] and checked["events"] > made["records"] / 2
