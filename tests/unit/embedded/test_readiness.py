"""What a start says while it waits: each step as it comes, and what is late where none comes for long."""

import os
import threading
from pathlib import Path

import pytest

from trackside.embedded import readiness
from trackside.embedded.folder import ProcessStatus, StackStatus, locked, write_status


class FastClock:
    """The clock of the module: each look at it is 4 s later."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self.sleep = threading.Event().wait

    def monotonic(self) -> float:
        self._now_s += 4.0
        return self._now_s


def test_a_start_says_what_it_waits_for_where_no_step_comes_for_10_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert [text.partition(",")[0] for text in said] == [
        "kafka: starting",
        "still waiting for kafka",
        "still waiting for kafka",
        "kafka: ready",
        "worker: starting",
        "still waiting for worker",
    ]
