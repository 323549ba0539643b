"""The worker's own process on a real Kafka: joins, runs torch on digits, is killed, comes back, leaves."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.worker.harness import EXAMPLES, WorkerHarness, alive, of
from tests.integration.worker.processes import worker_process
from tests.stack import Servers
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnd,
    AttemptEnded,
    TaskStatusChanged,
)

WAITS = {"tell_pid": True, "wait_for_stop": True}
IMPORT_S = 1.0
"""How long Python's own start takes on the worker's host; the lease of a task is half of it."""


@contextmanager
def worker(
    on_kafka: WorkerHarness, stack: Servers, data_dir: Path, example: str = "noop"
) -> Iterator[subprocess.Popen[bytes]]:
    """Starts the worker's process."""
    settings = {
        "data_dir": data_dir,
        "catalogue": EXAMPLES / example / "catalogue.yaml",
        "preload": "torch" if example == "digits" else "",
    }
    with worker_process(on_kafka, stack.kafka_bootstrap, **settings) as process:
        yield process


async def test_a_worker_killed_on_kafka_comes_back_after_its_lease_and_has_its_task_still(
    on_kafka: WorkerHarness, stack: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says in its join how long its tasks run on: its host imports slowly, so a start takes seconds."""
    (tmp_path / "sitecustomize.py").write_text(f"import time\ntime.sleep({IMPORT_S})\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with worker(on_kafka, stack, tmp_path) as process:
        joined = await on_kafka.joined()
        assert 5_000 * IMPORT_S < joined.keep_ms <= 60_000
        command = await on_kafka.run("a", WAITS, lease_s=IMPORT_S / 2)
        pid = await on_kafka.pid("a")
        process.kill()
    with worker(on_kafka, stack, tmp_path):
        joined = await on_kafka.joined(nth=2)
        adopted = await on_kafka.event(AttemptAdopted, "a")
        assert (adopted.incarnation, adopted.earlier) == (joined.incarnation, (command.incarnation,))
        assert alive(pid) and joined.after
        await on_kafka.stop(command.model_copy(update={"incarnation": joined.incarnation}))
        end = await on_kafka.end("a")
        assert (end.end, end.recovered, end.incarnation) == (AttemptEnd.FINISHED, False, joined.incarnation)
        assert end.result is not None and end.result["pid"] == pid
        story = await on_kafka.story("b", incarnation=joined.incarnation)
    assert isinstance(story[-1], AttemptEnded) and story[-1].end is AttemptEnd.FINISHED
    assert len(of(story, TaskStatusChanged)) == 4


@pytest.mark.long
async def test_fm_13_a_worker_that_slept_past_its_lease_ends_its_tasks_and_joins_anew(
    on_kafka: WorkerHarness, stack: Servers, tmp_path: Path
) -> None:
    with worker(on_kafka, stack, tmp_path) as process:
        command = await on_kafka.run("a", {"tell_pid": True, "seconds": 600})
        pid = await on_kafka.pid("a")
        process.send_signal(signal.SIGSTOP)
        await on_kafka.declare_lost(command.incarnation)
        process.send_signal(signal.SIGCONT)
        joined = await on_kafka.joined(nth=2)
        assert not alive(pid) and joined.incarnation != command.incarnation
        assert (await on_kafka.end("a")).end is AttemptEnd.LOST
        assert (await on_kafka.ended("b", incarnation=joined.incarnation)).end is AttemptEnd.FINISHED


def test_a_bad_catalogue_ends_the_worker_with_2_and_names_file_key_and_rule(tmp_path: Path) -> None:
    path = tmp_path / "catalogue.yaml"
    path.write_text("tasks: {a: {entry: nothing}}")
    environment = {**os.environ, "TRACKSIDE_WORKER_CATALOGUE": str(path)}
    ended = subprocess.run(
        [sys.executable, "-m", "trackside.worker"], env=environment, capture_output=True, text=True
    )
    assert ended.returncode == 2
    assert f"{path}: $.tasks.a.entry: expected module:Class" in ended.stderr
