"""The demo, as `make demo` runs it: to its end, interrupted, and killed."""

import os
import re
import select
import signal
from pathlib import Path

import pytest

from tests.e2e.harness import UserFolder
from trackside.embedded.folder import read_status

pytestmark = pytest.mark.timeout(900)

PROGRESS = re.compile("still waiting for|trials ended, best")
"""Lines of which a slow machine sees more."""


def test_the_demo_searches_shows_the_best_and_replays_equal(tmp_path: Path) -> None:
    folder = UserFolder(tmp_path)
    ended = folder.run("demo", timeout_s=800)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert re.search(r"replay: \d{3,} events, \d{3,} rows, equal", ended.stdout)
    assert re.search(r"best of 20 trials, from Postgres \([1-9]\d* stopped early", ended.stdout)
    best = re.search(r"^best: ([0-9.]+) ", ended.stdout, re.MULTILINE)
    assert best is not None and float(best[1]) >= 0.95
    assert re.search(r"^A trial \d+  last 0\.\d+ ", ended.stdout, re.MULTILINE), "curves of the best trials"
    steps = [line for line in ended.stderr.splitlines() if not PROGRESS.search(line)]
    assert len(ended.stdout.splitlines()) + len(steps) < 50
    assert "Traceback" not in ended.stderr
    assert "not preloaded" not in (tmp_path / ".trackside" / "logs" / "worker.log").read_text()
    assert folder.processes() == []


@pytest.mark.long
def test_an_interrupted_demo_leaves_no_process(tmp_path: Path) -> None:
    folder = UserFolder(tmp_path)
    with folder.start("demo") as demo:
        assert demo.stdout is not None
        assert any("accepted" in line for line in demo.stdout)
        demo.send_signal(signal.SIGINT)
        assert demo.wait(120) == 130
    assert folder.processes() == []


@pytest.mark.long
def test_a_killed_demo_leaves_no_process(tmp_path: Path) -> None:
    folder = UserFolder(tmp_path)
    with folder.start("demo") as demo:
        assert demo.stdout is not None
        assert any("topics and tables" in line for line in demo.stdout)
        supervisor = os.pidfd_open(read_status(tmp_path / ".trackside").supervisor_pid)
        demo.kill()
    ended, _, _ = select.select([supervisor], [], [], 120)
    os.close(supervisor)
    assert ended
    assert folder.processes() == []
