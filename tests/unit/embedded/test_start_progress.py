"""When a start of a stack is over, and what it says while it waits: only the clock is the test's."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from trackside.embedded.folder import ProcessStatus, StackStatus, locked, write_status
from trackside.embedded.supervision import readiness
from trackside.embedded.supervision.start_progress import LONGEST_TIMES, StartProgress, active_seconds

LIMIT_S = 60.0
SPINS = "while True: pass"
WAITS = "print(flush=True); input()"
has_schedstats = Path("/proc/self/schedstat").exists()
needs_schedstats = pytest.mark.skipif(not has_schedstats, reason="the kernel has no schedstats")


@contextmanager
def process(code: str) -> Iterator[int]:
    """Runs a Python program, and yields its pid once it runs its code."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen([sys.executable, "-c", code], **pipes)
    try:
        if code == WAITS:
            assert child.stdout is not None and child.stdout.readline() == b"\n"
        yield child.pid
    finally:
        child.kill()
        child.communicate()


@pytest.fixture
def status(tmp_path: Path) -> ProcessStatus:
    log = tmp_path / "kafka.log"
    log.touch()
    return ProcessStatus("kafka", state="starting", log=str(log))


def test_a_start_without_progress_is_over_after_its_limit(status: ProcessStatus) -> None:
    with process(WAITS) as pid:
        status.pid = pid
        start = StartProgress(1_000.0, LIMIT_S)
        assert not start.look([status], 1_000.0)
        assert not start.look([status], 1_000.0 + LIMIT_S)
        assert start.look([status], 1_001.0 + LIMIT_S)


def test_a_state_that_changes_or_a_log_that_grows_is_progress(status: ProcessStatus) -> None:
    start = StartProgress(0.0, LIMIT_S)
    for at, state in enumerate(["waiting", "starting", "ready"]):
        status.state = state
        assert not start.look([status], 50.0 * at)
    assert start.look([status], 161.0)
    start, status.state = StartProgress(0.0, LIMIT_S), "starting"
    for at in range(5):
        with Path(status.log).open("a") as log:
            log.write("redo in progress\n")
        assert not start.look([status], 50.0 * at)
    assert start.look([status], 261.0)


@pytest.mark.thorough
@needs_schedstats
def test_a_process_that_runs_makes_progress_until_ten_times_the_limit(status: ProcessStatus) -> None:
    with process(SPINS) as pid:
        status.pid = pid
        start, now_s = StartProgress(0.0, LIMIT_S), 0.0
        while not start.look([status], now_s):
            before_s = active_seconds(pid)
            while active_seconds(pid) < before_s + 0.11:
                os.sched_yield()
            now_s += 0.5
            start.began_s -= 5.0  # as if it had begun long ago
            assert start.last_s >= now_s - 1.0
        assert now_s - start.began_s > LONGEST_TIMES * LIMIT_S


@pytest.mark.thorough
@needs_schedstats
def test_what_a_process_waits_for_a_processor_counts_as_if_it_ran(status: ProcessStatus) -> None:
    one = next(iter(os.sched_getaffinity(0)))
    pinned = f"import os; os.sched_setaffinity(0, [{one}])\n{SPINS}"
    with process(pinned) as first, process(pinned), process(pinned), process(pinned):
        while active_seconds(first) < 1.0:
            os.sched_yield()
        ran_ns = int(Path(f"/proc/{first}/schedstat").read_text().split()[0])
    assert ran_ns < 0.8e9


def test_a_process_that_is_started_again_and_again_makes_no_progress(status: ProcessStatus) -> None:
    start = StartProgress(0.0, LIMIT_S)
    start.look([status], 0.0)
    found = []
    for at in range(1, 9):
        status.restarts, status.state = at, "restarting" if at % 2 else "starting"
        with Path(status.log).open("a") as log:
            log.write("no topics\n")
        found.append(start.look([status], 10.0 * at))
    assert found[-1]


class FastClock:
    """The clock of the module: each look at it is 4 s later."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self.sleep = threading.Event().wait

    def monotonic(self) -> float:
        self._now_s += 4.0
        return self._now_s


def test_a_start_says_what_it_waits_for_after_10_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    kafka, worker = ProcessStatus("kafka", state="starting"), ProcessStatus("worker", state="waiting")
    status = StackStatus("starting", os.getpid(), "", "", processes={"kafka": kafka, "worker": worker})

    def progress(text: str) -> None:
        said.append(text)
        if len(said) == 3:
            kafka.state, worker.state = "ready", "starting"
        if len(said) == 6:
            status.state = worker.state = "running"
        write_status(tmp_path, status)

    monkeypatch.setattr(readiness, "time", FastClock())
    with locked(tmp_path):
        write_status(tmp_path, status)
        assert readiness.await_ready(tmp_path, 60.0, progress).state == "running"
    first = ["kafka: starting", "still waiting for kafka", "still waiting for kafka"]
    then = ["kafka: ready", "worker: starting", "still waiting for worker"]
    assert [text.partition(",")[0] for text in said] == [*first, *then]
