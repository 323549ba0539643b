"""Services of a stack that are restarted: each has another process, and a running task goes on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shared_stack import StackFolder, folder_below, start
from tests.polling import poll_until_sync

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
TASKS = "kind: tasks\ngroups: [{tasks: [{task_type: gated, parameters: {x: 1}}]}]\n"
SERVICES = {"dispatcher", "scheduler", "summary-indexer", "console", "worker"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[StackFolder]:
    home = tmp_path_factory.mktemp("restarted")
    user = start(home, "--leash", str(leash), TRACKSIDE_SCHEDULER_LEASE_S="60")
    with folder_below(home) as below:
        yield below
    user.run_ok("down")


def pids(folder: StackFolder) -> dict[str, int | None]:
    """Returns the pids of the stack's processes."""
    return {name: each.pid for name, each in folder.stack.status.processes.items()}


def test_all_services_are_restarted_and_a_running_task_does_not_notice(folder: StackFolder) -> None:
    waits = folder.submit("waits", TASKS)
    poll_until_sync(lambda: ".metric-reported." in folder.run_ok("events", waits, "--json"))
    before = pids(folder)
    folder.run_ok("restart")
    after = pids(folder)
    assert {name for name in before if before[name] != after[name]} == SERVICES
    folder.release(waits)
    folder.run_ok("watch", waits)
    [task] = folder.json_output("tasks", "--stream", waits)
    assert (task["ending"], task["attempts"]) == ("finished", 1), task
    assert "nothing found" in folder.run_ok("verify-log")


def test_services_that_never_had_the_key_of_a_forgotten_stream_have_the_same_rows(
    folder: StackFolder,
) -> None:
    folder.release(folder.id("secret"))
    secret = folder.submit("secret", TASKS, "--encrypted", "--wait")
    folder.run_ok("forget", secret, "--reason", "asked for", "--yes")
    folder.run_ok("restart")
    assert "FORGOTTEN" in folder.run_ok("ls") and "answered" in folder.run_ok("ping")
    assert "equal" in folder.run_ok("replay", "rebuild")
