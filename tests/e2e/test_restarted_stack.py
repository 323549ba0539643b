"""Services of a stack that are restarted, or killed: each has another process, and a running task goes on."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import UserFolder
from tests.polling import poll_until_sync
from trackside.embedded.folder import read_status
from trackside.embedded.processes import children_of

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[UserFolder]:
    home = tmp_path_factory.mktemp("restarted")
    (home / "catalogue.yaml").write_text(CATALOGUE)
    (home / "mine.py").write_text(MINE)
    (home / "tasks.yaml").write_text("kind: tasks\ngroups: [{tasks: [{task_type: patient}]}]\n")
    settings = {"SCHEDULER_LEASE_S": "60", "WORKER_PRELOAD": "", "SPARES": "true"}
    user = UserFolder(home, {f"TRACKSIDE_{name}": value for name, value in settings.items()})
    user.run_ok("up", "--leash", str(leash))
    yield user
    user.run_ok("down")


def pids(folder: UserFolder) -> dict[str, int]:
    """Returns the pids of the stack's processes."""
    status = json.loads((folder.path / ".trackside" / "stack.json").read_text())
    return {name: each["pid"] for name, each in status["processes"].items() if each["pid"]}


def spare_of(folder: UserFolder, package: str) -> int:
    """Waits until a service has a spare; returns its pid."""
    supervisor = read_status(folder.path / ".trackside").supervisor_pid
    assert supervisor is not None
    command = f"trackside.embedded.spare\0{package}\0".encode()
    found: list[int] = []

    def exists() -> bool:
        commands = {pid: Path(f"/proc/{pid}/cmdline") for pid in children_of(supervisor)}
        found[:] = [pid for pid, path in commands.items() if path.exists() and command in path.read_bytes()]
        return bool(found)

    poll_until_sync(exists)
    return found[0]


def test_all_services_are_restarted_and_a_running_task_does_not_notice(folder: UserFolder) -> None:
    told = folder.path / "pid"
    folder.run_ok("submit", "tasks.yaml", "--id", "waits")
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


def test_a_killed_dispatcher_is_replaced_by_its_spare_and_one_that_is_restarted_is_not(
    folder: UserFolder,
) -> None:
    spare, before = spare_of(folder, "trackside.dispatcher"), pids(folder)
    assert spare != before["dispatcher"]
    os.kill(before["dispatcher"], signal.SIGKILL)
    poll_until_sync(lambda: pids(folder).get("dispatcher") == spare)
    (folder.path / "released").touch()
    folder.run_ok("submit", "tasks.yaml", "--id", "decided-by-a-spare", "--wait")
    folder.run_ok("restart", "dispatcher")
    assert pids(folder)["dispatcher"] not in before.values()
    assert not Path(f"/proc/{spare}").exists()
