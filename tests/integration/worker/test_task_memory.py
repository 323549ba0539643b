"""What a task uses is its own memory: not what the worker has loaded for all tasks before."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.worker.given import worker_with
from tests.integration.worker.harness import Gate, WorkerHarness, of, scripted_settings
from trackside.contracts.envelope.message import Message
from trackside.contracts.fleet.fleet import RunningPlacement, WorkerHeartbeat
from trackside.contracts.tasks.summaries import MetricPointsReported
from trackside.eventlog.clock import monotonic_s
from trackside.worker.host.usage import read_sessions

MIB = 2**20
KEPT = 96 * MIB
OVERHEAD = 64 * MIB
MEASURED_S = 4
SERVER = Path(__file__).parent / "forking_server.py"
"""More than an interpreter has, and much less than the module that is preloaded."""


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[WorkerHarness]:
    settings = scripted_settings(
        tmp_path / "worker",
        preload="tests.integration.worker.scripted.preloaded",
        watch_interval_s=0.2,
    )
    async with worker_with(settings) as made:
        yield made


async def measured(harness: WorkerHarness, task_id: str, at_least: int = 1) -> int:
    """Waits until a heartbeat has a peak of a task, and a point its use; returns the greater one."""

    def peaks(messages: list[Message]) -> list[RunningPlacement]:
        beats = of(messages, WorkerHeartbeat)
        return [each for beat in beats for each in beat.running if each.peak_memory_bytes >= at_least]

    def points(messages: list[Message]) -> list[float]:
        series = [each for batch in of(messages, MetricPointsReported) for each in batch.series]
        values = [value for each in series if each.tag == "system/memory_bytes" for value in each.values]
        return [value for value in values if value]

    beats = await harness.messages(harness.topics.heartbeats, "w1", lambda all_: bool(peaks(all_)))
    batches = await harness.messages(harness.topics.metrics, task_id, lambda all_: bool(points(all_)))
    return max(peaks(beats)[-1].peak_memory_bytes, int(points(batches)[-1]))


@pytest.mark.parametrize("steps", ["wait", "helpers_wait"])
async def test_a_task_that_waits_uses_little_whatever_the_worker_has_preloaded(
    harness: WorkerHarness, gate: Gate, steps: str
) -> None:
    """It showed 323 MiB with torch preloaded; helpers that it forks share those pages, too."""
    await harness.run("a", {**gate.waits, "train": [steps]}, task_type="scripted")
    used = await measured(harness, "a")
    await gate.pass_one()
    end = await harness.end("a")
    assert end.memory_measure == "own"
    assert 0 < end.peak_memory_bytes < OVERHEAD
    assert used <= end.peak_memory_bytes


@pytest.mark.parametrize("task_type", ["scripted", "capped", "taking"])
async def test_what_a_task_takes_is_measured_also_after_it_has_let_go_of_it(
    harness: WorkerHarness, task_type: str
) -> None:
    """Where there are cgroups it is the kernel that counts for `capped`, as it does for its limit.

    For `taking`, a short program, it counts also what the process had that started it.
    """
    end = await harness.ended("a", {"train": ["ok"], "keep": KEPT}, task_type=task_type)
    assert KEPT <= end.peak_memory_bytes < KEPT + OVERHEAD


@pytest.mark.long
def test_no_memory_of_a_forkserver_counts_for_a_task_while_other_processes_come_and_go() -> None:
    """A task that took 96 MiB had a peak of 186 since an idle process ended while it was measured."""
    command = [sys.executable, str(SERVER), "256", "7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as server:
        assert server.stdout is not None
        runner = int(server.stdout.readline())
        try:
            peaks = []
            end_s = monotonic_s() + MEASURED_S
            while monotonic_s() < end_s:
                peaks += [each.peak_bytes for each in read_sessions([runner]).values()]
        finally:
            os.killpg(runner, signal.SIGKILL)
            os.killpg(server.pid, signal.SIGKILL)
    assert KEPT < max(peaks) < KEPT + OVERHEAD // 4
