"""Tasks on several GPUs, which are a stand-in's: shared, whole, several at once, full, broken."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.worker.given import SHARES, on_gpu, worker_with
from tests.integration.worker.harness import Gate, WorkerHarness, of, scripted_settings
from tests.nvml.standin import GIB, FakeNvml
from trackside.contracts.envelope.message import Message
from trackside.contracts.fleet.fleet import DeviceUnhealthy
from trackside.contracts.tasks.summaries import MetricPointsReported
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    Reservation,
    TaskAccepted,
    TaskInterrupted,
    TaskRefused,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.telemetry import metrics

pytestmark = SHARES


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(gpus: FakeNvml, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorkerHarness]:
    with pytest.MonkeyPatch.context() as patched:
        gpus.load(patched)
        folder = tmp_path_factory.mktemp("shared") / "worker"
        async with worker_with(
            scripted_settings(folder, watch_interval_s=0.05, host_reserve=2**60)
        ) as harness:
            yield harness


async def refused_on_gpu(harness: WorkerHarness, task_id: str, cuda_gib: float, **more: Any) -> TaskRefused:
    await on_gpu(harness, task_id, cuda_gib, **more)
    return await harness.event(TaskRefused, task_id)


async def test_tasks_share_a_gpu_as_long_as_they_fit(harness: WorkerHarness, gates: list[Gate]) -> None:
    await on_gpu(harness, "a", 6, gates[0])
    await on_gpu(harness, "b", 6, gates[1])
    refused = await refused_on_gpu(harness, "c", 6)
    assert (refused.code, "gpu-0" in refused.message) == ("out_of_memory", True)
    refused = await refused_on_gpu(harness, "d", 1, whole_device=True)
    assert refused.code == "device_busy"
    for gate, task_id in zip(gates, "ab", strict=False):
        await gate.pass_one()
        end = await harness.end(task_id)
        assert end.end is AttemptEnd.FINISHED and end.result is not None
        assert (end.result["device"], end.result["cuda"]) == ("cuda:0", "GPU-00000000")


async def test_a_whole_device_waits_until_all_others_have_left(
    harness: WorkerHarness, gates: list[Gate]
) -> None:
    await on_gpu(harness, "a", 1, gates[0])
    await on_gpu(harness, "b", 1, gates[1])
    await on_gpu(harness, "c", 1, wait=True, whole_device=True)
    await gates[0].pass_one()
    await harness.end("a")
    await gates[1].pass_one()
    story = await harness.events_until_end("c")
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED


async def test_several_devices_come_by_the_topic_of_the_host(
    harness: WorkerHarness, gates: list[Gate]
) -> None:
    both = ["gpu-1", "gpu-2"]
    command = await harness.run("a", gates[0].waits, device="host", device_ids=both, task_type="scripted")
    await harness.statuses("a", 4)
    refused = await harness.refused("b", device="gpu-2", task_type="scripted", whole_device=True)
    assert refused.code == "device_busy"
    await harness.stop(command, device="host")
    assert (await harness.end("a")).end is AttemptEnd.CANCELLED
    end = await harness.ended("c", device="host", device_ids=both, task_type="scripted")
    assert end.result is not None and end.result["cuda"] == "GPU-00000001,GPU-00000002"


async def test_t18_what_others_use_of_a_gpu_is_not_given_away(harness: WorkerHarness, gpus: FakeNvml) -> None:
    gpus.set(0, processes=[(1, 12 * GIB)])
    beat = await harness.heartbeat(lambda beat: any(each.foreign_bytes == 12 * GIB for each in beat.devices))
    assert beat.available_bytes and beat.cpu_percent is not None
    refused = await refused_on_gpu(harness, "a", 6)
    assert refused.code == "out_of_memory"
    await on_gpu(harness, "b", 3)
    assert (await harness.end("b")).end is AttemptEnd.FINISHED
    gpus.set(0, processes=[])
    await harness.sees_idle_gpus()


async def test_fm_18_an_interrupted_task_waits_until_its_raised_reservation_fits(
    harness: WorkerHarness, gates: list[Gate]
) -> None:
    """T8, and never more on the device than there is."""
    await on_gpu(harness, "a", 9, gates[0])
    await on_gpu(harness, "b", 6, interrupts=1, requested={"train": ["device", "ok"]})
    interrupted = await harness.event(TaskInterrupted, "b")
    assert interrupted.reserved.cuda_memory_bytes == 9 * GIB
    waits = of(await harness.statuses("b", 5), TaskStatusChanged)[-1]
    assert (waits.status, waits.interrupts) == (TaskStatus.WAITING, 1)
    # It would fit, and overtake b.
    assert (await refused_on_gpu(harness, "c", 1)).code == "out_of_memory"
    await gates[0].pass_one()
    assert (await harness.end("b")).end is AttemptEnd.FINISHED


async def test_t19_interrupted_tasks_that_fill_the_host_do_not_wait_for_each_other(
    harness: WorkerHarness, gates: list[Gate]
) -> None:
    """Both keep their data, and neither fits beside the other: the last one is put back in the queue."""
    much = (await harness.joined()).memory_bytes * 45 // 100
    more: dict[str, Any] = {"interrupts": 1, "reserved": Reservation(memory_bytes=much)}
    for number, task_id in enumerate("ab"):
        requested = {**gates[number].waits, "train": ["wait_host", "ok"]}
        await on_gpu(harness, task_id, 0, requested=requested, device=f"gpu-{number}", **more)
        await harness.statuses(task_id, 4)
    await asyncio.gather(gates[0].pass_one(), gates[1].pass_one())
    ends = {(await harness.end(task_id)).end for task_id in "ab"}
    assert ends == {AttemptEnd.FINISHED, AttemptEnd.PREEMPTED}


async def test_fm_19_a_gpu_that_falls_off_the_bus_loses_its_tasks_and_takes_no_more(
    harness: WorkerHarness, gates: list[Gate], gpus: FakeNvml
) -> None:
    """No other test uses this GPU."""
    await on_gpu(harness, "a", 1, gates[0], device="gpu-3")
    await on_gpu(harness, "b", 1, device="gpu-3", wait=True, whole_device=True)
    await on_gpu(harness, "c", 1, gates[1], device="gpu-1")
    gpus.lose(3)
    unhealthy = await harness.first(DeviceUnhealthy, harness.topics.fleet, "w1")
    assert unhealthy.device_id == "gpu-3" and unhealthy.reason
    assert (await harness.end("a")).end is AttemptEnd.LOST
    await harness.event(TaskReturned, "b")
    refused = await refused_on_gpu(harness, "d", 1, device="gpu-3")
    assert (refused.code, "has failed" in refused.message) == ("unknown_device", True)
    await gates[1].pass_one()
    assert (await harness.end("c")).end is AttemptEnd.FINISHED


async def test_bi_32_an_unknown_device_is_refused_with_the_list(harness: WorkerHarness) -> None:
    refused = await harness.refused("a", device_ids=["gpu-9"], task_type="scripted")
    assert refused.code == "unknown_device"
    assert "cpu-0, cpu-1, gpu-0, gpu-1, gpu-2, gpu-3" in refused.message


async def test_what_a_task_uses_is_told_while_it_runs_and_at_its_end(
    harness: WorkerHarness, gates: list[Gate], gpus: FakeNvml
) -> None:
    await on_gpu(harness, "a", 4, gates[0], requested={"tell_pid": True})
    pid = await harness.pid("a")
    gpus.set(0, processes=[(pid, 3 * GIB)], utilisation=64)
    await harness.heartbeat(
        lambda beat: any(
            each.peak_cuda_memory_bytes == 3 * GIB and each.peak_memory_bytes > 0 for each in beat.running
        )
    )

    def told(batches: list[Message]) -> set[str]:
        return {series.tag for batch in of(batches, MetricPointsReported) for series in batch.series}

    is_told = {"system/memory_bytes", "system/cpu_percent", "system/gpu_percent"}.issubset
    await harness.messages(harness.topics.metrics, "a", lambda all_: is_told(told(all_)))
    lines = [line for line in metrics.exposition()[1].decode().splitlines() if 'device="gpu-0"' in line]
    shown = {line.partition("{")[0]: float(line.split()[-1]) for line in lines}
    assert shown["trackside_worker_device_utilisation_ratio"] == 0.64
    assert shown["trackside_worker_device_memory_bytes"] == 3 * GIB
    assert shown["trackside_worker_device_reserved_bytes"] == 4 * GIB
    assert shown["trackside_worker_device_tasks"] == 1
    await gates[0].pass_one()
    end = await harness.end("a")
    assert (end.peak_cuda_memory_bytes, end.peak_memory_bytes > 0) == (3 * GIB, True)
    story = await harness.events_until_end("a")
    assert len(of(story, TaskAccepted)) == 1
    gpus.set(0, processes=[], utilisation=0)
    await harness.sees_idle_gpus()
