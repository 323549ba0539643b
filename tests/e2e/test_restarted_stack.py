"""`trackside restart` while a task runs: each service has another process, and the task goes on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import UserFolder
from tests.polling import poll_until_sync

pytestmark = pytest.mark.timeout(600)
CATALOGUE = 'tasks: {patient: {entry: "mine:Patient", path: .}}'
MINE = """
import os
from pathlib import Path
from threading import Event

from trackside.sdk import Task


class Patient(Task):
    def train(self, device):
        here = Path(__file__).parent
        (here / "pid").write_text(str(os.getpid()))
        while not (here / "released").exists():
            Event().wait(0.05)
        return {"pid": os.getpid()}
"""
SERVICES = {"dispatcher", "scheduler", "summary-indexer", "console", "worker"}


@pytest.fixture
def folder(tmp_path: Path, leash: Path) -> Iterator[UserFolder]:
    (tmp_path / "catalogue.yaml").write_text(CATALOGUE)
    (tmp_path / "mine.py").write_text(MINE)
    user = UserFolder(tmp_path, {"TRACKSIDE_SCHEDULER_LEASE_S": "60", "TRACKSIDE_WORKER_PRELOAD": ""})
    user.run_ok("up", "--leash", str(leash))
    yield user
    user.run_ok("down")


def pids(folder: UserFolder) -> dict[str, int]:
    """Returns the pids of the stack's processes."""
    status = json.loads((folder.path / ".trackside" / "stack.json").read_text())
    return {name: each["pid"] for name, each in status["processes"].items() if each["pid"]}


def test_all_services_are_restarted_and_a_running_task_does_not_notice(folder: UserFolder) -> None:
    spec, told = folder.path / "tasks.yaml", folder.path / "pid"
    spec.write_text("kind: tasks\ngroups: [{tasks: [{task_type: patient}]}]\n")
    folder.run_ok("submit", str(spec), "--id", "waits")
    poll_until_sync(told.exists)
    before = pids(folder)
    folder.run_ok("restart")
    after = pids(folder)
    assert {name for name in before if before[name] != after[name]} == SERVICES
    (folder.path / "released").touch()
    folder.run_ok("watch", "waits")
    [task] = folder.json_output("tasks", "--stream", "waits")
    assert (task["ending"], task["attempts"]) == ("finished", 1), task
    assert told.read_text() == str(task["result"]["pid"])
    assert "nothing found" in folder.run_ok("verify-log")


def test_a_service_that_the_stack_lacks_is_bad_usage_and_restarts_nothing(folder: UserFolder) -> None:
    before = pids(folder)
    ended = folder.run("restart", "dispatcher", "kafka")
    assert ended.returncode == 2
    assert "kafka is not a service of this stack; it has dispatcher, scheduler" in ended.stderr
    assert pids(folder) == before
