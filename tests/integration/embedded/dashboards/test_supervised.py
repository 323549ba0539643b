"""Prometheus and Grafana under the supervisor: the stack never fails for them, and they never outlive it."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.embedded.dashboards.homes import grafana_home, script
from tests.integration.embedded.test_stack import WITHOUT_SERVERS, all_end, folder, pids_of, service
from trackside.embedded import stack
from trackside.embedded.errors import StackError
from trackside.embedded.folder import is_locked
from trackside.embedded.options import StackOptions
from trackside.embedded.settings import DashboardSettings

__all__ = ["folder"]


@pytest.fixture(autouse=True)
def _no_programs_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


def options(tmp_path: Path, home: Path) -> StackOptions:
    """Returns a stack of one service and a Grafana, with a password for a Postgres that nobody asks."""
    password = tmp_path / "password"
    password.write_text("secret\n")
    dashboards = DashboardSettings(grafana_home=str(home))
    return StackOptions([service()], reader_password=password, dashboards=dashboards, **WITHOUT_SERVERS)


@pytest.mark.parametrize(
    ("program", "ends"),
    [
        ("grafana-server", stack.stop),
        pytest.param("grafana", stack.stop, marks=pytest.mark.long),
        ("grafana", lambda home: os.kill(stack.load(home).status.supervisor_pid, signal.SIGKILL)),
    ],
    ids=["server_stopped", "stopped", "killed"],
)
def test_a_grafana_of_either_layout_runs_and_ends_with_the_stack_also_with_a_killed_supervisor(
    folder: Path, tmp_path: Path, program: str, ends: Callable[[Path], object]
) -> None:
    running = stack.start(folder, options(tmp_path, grafana_home(tmp_path / "home", program)))
    states = {name: each.state for name, each in running.status.processes.items()}
    assert states == {"echo": "ready", "grafana": "ready"}
    left = pids_of(folder)
    ends(folder)
    assert all_end(left)


def test_a_grafana_that_can_not_start_is_a_problem_of_a_stack_that_runs(folder: Path, tmp_path: Path) -> None:
    home = grafana_home(tmp_path / "home")
    script(home / "bin" / "grafana", "echo no license for this; exit 3")
    running = stack.start(folder, options(tmp_path, home))
    assert (running.status.state, running.status.is_ready) == ("running", True)
    assert "grafana ended with 3 3 times before it was ready" in running.status.problems["grafana_failed"]
    assert "no license for this" in (folder / "logs" / "grafana.log").read_text()
    assert running.status.processes["echo"].state == "ready"


def test_a_folder_without_grafana_and_a_postgres_without_a_login_are_refused_before_anything_starts(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(StackError, match=r"TRACKSIDE_GRAFANA_HOME: .* has no conf/defaults.ini"):
        stack.start(folder, options(tmp_path, tmp_path))
    with pytest.raises(StackError, match="TRACKSIDE_READER_PASSWORD_FILE"):
        stack.start(folder, StackOptions(dashboards=DashboardSettings(), **WITHOUT_SERVERS))
    assert not is_locked(folder)
