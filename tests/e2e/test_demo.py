"""The demo, as `make demo` runs it: to its end, interrupted, and killed."""

import os
import re
import select
import signal
import subprocess
from pathlib import Path

import pytest

from tests.e2e.harness import UserFolder
from trackside.embedded.folder import read_status

pytestmark = pytest.mark.timeout(900)


def test_the_demo_searches_shows_the_best_and_replays_equal(tmp_path: Path) -> None:
    folder = UserFolder(tmp_path)
    ended = folder.run("demo", timeout_s=800)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    found = re.search(r"replay: (\d+) events, (\d+) rows, equal", ended.stdout)
    assert found is not None and int(found[1]) > 200 and int(found[2]) > 200
    stopped = re.search(r"best of 20 trials, from Postgres \((\d+) stopped early", ended.stdout)
    assert stopped is not None and int(stopped[1]) >= 1
    best = re.search(r"^best: ([0-9.]+) ", ended.stdout, re.MULTILINE)
    assert best is not None and float(best[1]) >= 0.95
    assert re.search(r"^A trial \d+  last 0\.\d+ ", ended.stdout, re.MULTILINE), (
        "the curves of the best trials"
    )
    assert len(ended.stdout.splitlines()) + len(ended.stderr.splitlines()) < 50
    assert "Traceback" not in ended.stderr
    assert "not preloaded" not in (tmp_path / ".trackside" / "logs" / "worker.log").read_text()
    assert folder.processes() == []


def test_an_interrupted_demo_leaves_no_process(tmp_path: Path) -> None:
    folder = UserFolder(tmp_path)
    with folder.start("demo") as demo:
        _read_until(demo, "accepted")
        demo.send_signal(signal.SIGINT)
        assert demo.wait(120) == 130
    assert folder.processes() == []


def test_a_killed_demo_leaves_no_process(tmp_path: Path) -> None:
    folder = UserFolder(tmp_path)
    with folder.start("demo") as demo:
        _read_until(demo, "topics and tables")
        supervisor = os.pidfd_open(read_status(tmp_path / ".trackside").supervisor_pid)
        demo.kill()
    ended, _, _ = select.select([supervisor], [], [], 120)
    os.close(supervisor)
    assert ended
    assert folder.processes() == []


def _read_until(process: "subprocess.Popen[str]", text: str) -> None:
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if text in line:
            return
    raise AssertionError(f"ended without {text!r}: {''.join(seen)}")
