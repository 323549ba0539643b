"""Estimates of memory that are enforced: by cgroups where they can be made, else by watching."""

from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest

from tests.integration.worker.given import worker_with
from tests.integration.worker.harness import Gate, WorkerHarness, scripted_settings
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, Reservation
from trackside.domain.tasks.retries import raised
from trackside.worker.attempts.memory.cgroups import Cgroups, cgroups_of

MIB = 2**20
CGROUP, WATCH = "cgroup", "watch"


@pytest.fixture(params=[CGROUP, WATCH])
async def harness(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[WorkerHarness]:
    """A worker whose host has cgroups, or has none."""
    root = Path("/") if request.param == CGROUP else tmp_path / "host-without-cgroups"

    def cgroups_there(
        worker_id: str, data_dir: Path, max_processes: int, spared: Collection[int] = ()
    ) -> Cgroups:
        return cgroups_of(worker_id, data_dir, max_processes, root, spared)

    probe = cgroups_there("probe", tmp_path, 0)
    probe.close()
    if probe.enforcement != request.param:
        pytest.skip("this host has no memory cgroup that may be written to")
    monkeypatch.setattr("trackside.worker.worker_runner.cgroups_of", cgroups_there)
    async with worker_with(scripted_settings(tmp_path / "worker", watch_interval_s=0.1)) as made:
        yield made


RESERVED = Reservation(memory_bytes=100 * MIB, estimated_by="task")


def was_killed(end: AttemptEnded) -> bool:
    assert (end.end, end.limit) == (AttemptEnd.OOM_HOST, "estimate"), end
    assert end.limit_bytes == 120 * MIB
    return end.peak_memory_bytes >= end.limit_bytes * 0.95


async def test_a_task_that_uses_more_than_its_estimate_is_tried_again_with_more(
    harness: WorkerHarness, gate: Gate
) -> None:
    parameters = {**gate.waits, "keep": 150 * MIB}
    first = await harness.ended("a", parameters, task_type="estimated", reserved=RESERVED)
    assert was_killed(first)
    assert first.error is not None
    assert first.error.message.startswith(
        "the process was killed at 120 MiB, 1.2 times its estimate of 100 MiB (`enforce: estimate` of its "
        "task type): the task used 1"
    )
    assert "request what it needs with estimate_memory" in first.error.message
    more = raised(RESERVED, "host", max(first.peak_memory_bytes, first.limit_bytes))
    await harness.run("a", parameters, task_type="estimated", reserved=more, attempt=2)
    await gate.pass_one()
    assert (await harness.end("a", nth=2)).end is AttemptEnd.FINISHED


async def test_a_program_that_uses_more_than_its_estimate_is_killed(harness: WorkerHarness) -> None:
    assert was_killed(await harness.ended("a", task_type="estimated-program", reserved=RESERVED))


async def test_a_training_that_runs_out_of_memory_trains_again_with_a_higher_limit(
    harness: WorkerHarness, gate: Gate
) -> None:
    parameters = {**gate.waits, "train": ["host", "wait"], "keep": [80 * MIB, 150 * MIB]}
    await harness.run("a", parameters, task_type="estimated", reserved=RESERVED, interrupts=1)
    await gate.pass_one()
    assert (await harness.end("a")).end is AttemptEnd.FINISHED


async def test_a_task_whose_type_does_not_enforce_its_estimate_may_use_more(
    harness: WorkerHarness,
) -> None:
    reserved = Reservation(memory_bytes=20 * MIB, estimated_by="task")
    end = await harness.ended("a", {"train": ["much", "ok"]}, task_type="scripted", reserved=reserved)
    assert end.end is AttemptEnd.FINISHED
