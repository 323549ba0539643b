"""Tasks on several GPUs, which are a stand-in's: shared, whole, several at once, full, broken."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.harness import Gate, Rig, hungry_settings, memory_log, of, running, stream_of
from tests.nvml.standin import GIB, FakeNvml
from trackside.contracts.fleet import DeviceUnhealthy, WorkerHeartbeat
from trackside.contracts.summaries import MetricPointsReported
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    Reservation,
    RunTask,
    TaskAccepted,
    TaskInterrupted,
    TaskRefused,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.contracts.topics import Topics
from trackside.telemetry import metrics


@pytest.fixture
async def rig(tmp_path: Path, fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rig]:
    fake_nvml.load(monkeypatch)
    topics = Topics("t.")
    settings = hungry_settings(tmp_path / "worker", watch_interval_s=0.05, host_reserve=2**60)
    async with running(await memory_log(topics), topics, settings) as made:
        yield made


@pytest.fixture
def gates(tmp_path: Path) -> list[Gate]:
    return [Gate(tmp_path / f"gate-{number}") for number in range(3)]


async def on_gpu(rig: Rig, task_id: str, cuda_gib: float, gate: Gate | None = None, **more: Any) -> RunTask:
    """Runs a task on gpu-0; with a gate it trains until that opens, and this waits until it trains."""
    asked: dict[str, Any] = {"train": ["wait"], "gate": str(gate.path)} if gate is not None else {}
    asked |= more.pop("asked", {})
    reserved = Reservation(cuda_memory_bytes=int(cuda_gib * GIB))
    more = {"device": "gpu-0", "task_type": "hungry", "reserved": reserved, **more}
    command = await rig.run(task_id, asked, **more)
    if gate is not None and not command.wait:
        await rig.statuses(task_id, 4)
    return command


async def test_tasks_share_a_gpu_as_long_as_they_fit(rig: Rig, gates: list[Gate]) -> None:
    await on_gpu(rig, "a", 6, gates[0])
    await on_gpu(rig, "b", 6, gates[1])
    await on_gpu(rig, "c", 6)
    refused = await rig.first(TaskRefused, rig.topics.events, stream_of("c"))
    assert (refused.code, "gpu-0" in refused.message) == ("out_of_memory", True)
    await on_gpu(rig, "d", 1, whole_device=True)
    refused = await rig.first(TaskRefused, rig.topics.events, stream_of("d"))
    assert refused.code == "device_busy"
    for gate, task_id in zip(gates, "ab", strict=False):
        await gate.pass_one()
        end = await rig.end(task_id)
        assert end.end is AttemptEnd.FINISHED and end.result is not None
        assert (end.result["device"], end.result["cuda"]) == ("cuda:0", "GPU-00000000")


async def test_a_whole_device_waits_until_all_others_have_left(rig: Rig, gates: list[Gate]) -> None:
    await on_gpu(rig, "a", 1, gates[0])
    await on_gpu(rig, "b", 1, gates[1])
    await on_gpu(rig, "c", 1, wait=True, whole_device=True)
    await gates[0].pass_one()
    await rig.end("a")
    await gates[1].pass_one()
    story = await rig.story("c")
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED


async def test_several_devices_come_by_the_topic_of_the_host(rig: Rig, gates: list[Gate]) -> None:
    asked = {"train": ["wait"], "gate": str(gates[0].path)}
    both = ["gpu-1", "gpu-2"]
    command = await rig.run("a", asked, device="host", device_ids=both, task_type="hungry")
    await rig.statuses("a", 4)
    await rig.run("b", {}, device="gpu-2", task_type="hungry", whole_device=True)
    assert (await rig.first(TaskRefused, rig.topics.events, stream_of("b"))).code == "device_busy"
    await rig.stop(command, device="host")
    assert (await rig.end("a")).end is AttemptEnd.CANCELLED
    await rig.run("c", {}, device="host", device_ids=both, task_type="hungry")
    end = await rig.end("c")
    assert end.result is not None and end.result["cuda"] == "GPU-00000001,GPU-00000002"


async def test_t18_what_others_use_of_a_gpu_is_not_given_away(rig: Rig, fake_nvml: FakeNvml) -> None:
    fake_nvml.set(0, processes=[(1, 12 * GIB)])
    beats = await rig.messages(
        rig.topics.heartbeats,
        "w1",
        lambda all_: any(
            reading.foreign_bytes == 12 * GIB
            for beat in of(all_, WorkerHeartbeat)
            for reading in beat.devices
        ),
    )
    beat = of(beats, WorkerHeartbeat)[-1]
    assert beat.available_bytes and beat.cpu_percent is not None
    await on_gpu(rig, "a", 6)
    refused = await rig.first(TaskRefused, rig.topics.events, stream_of("a"))
    assert refused.code == "out_of_memory"
    await on_gpu(rig, "b", 3)
    assert (await rig.end("b")).end is AttemptEnd.FINISHED


async def test_fm_18_an_interrupted_task_waits_until_its_raised_reservation_fits(
    rig: Rig, gates: list[Gate]
) -> None:
    """T8, and never more on the device than there is."""
    await on_gpu(rig, "a", 9, gates[0])
    asked = {"train": ["device", "ok"]}
    await on_gpu(rig, "b", 6, interrupts=1, asked=asked)
    interrupted = await rig.first(TaskInterrupted, rig.topics.events, stream_of("b"))
    assert interrupted.reserved.cuda_memory_bytes == 9 * GIB
    waits = of(await rig.statuses("b", 5), TaskStatusChanged)[-1]
    assert (waits.status, waits.interrupts) == (TaskStatus.WAITING, 1)
    await on_gpu(rig, "c", 1)  # would fit, and overtake b
    assert (await rig.first(TaskRefused, rig.topics.events, stream_of("c"))).code == "out_of_memory"
    await gates[0].pass_one()
    assert (await rig.end("b")).end is AttemptEnd.FINISHED


async def test_a_reservation_that_grew_beyond_a_device_has_it_alone(rig: Rig, gates: list[Gate]) -> None:
    await on_gpu(rig, "a", 1, gates[0])
    await on_gpu(rig, "b", 12, interrupts=1, asked={"train": ["device", "ok"]})
    interrupted = await rig.first(TaskInterrupted, rig.topics.events, stream_of("b"))
    assert interrupted.reserved.cuda_memory_bytes == 16 * GIB
    await gates[0].pass_one()
    assert (await rig.end("b")).end is AttemptEnd.FINISHED


async def test_t19_interrupted_tasks_that_fill_the_host_do_not_wait_for_each_other(
    rig: Rig, gates: list[Gate]
) -> None:
    """Both keep their data, and neither fits beside the other: the last one is put back in the queue."""
    much = (await rig.joined()).memory_bytes * 45 // 100
    more: dict[str, Any] = {"interrupts": 1, "reserved": Reservation(memory_bytes=much)}
    for number, task_id in enumerate("ab"):
        asked = {"train": ["wait_host", "ok"], "gate": str(gates[number].path)}
        await on_gpu(rig, task_id, 0, asked=asked, device=f"gpu-{number}", **more)
        await rig.statuses(task_id, 4)
    await asyncio.gather(gates[0].pass_one(), gates[1].pass_one())
    ends = {(await rig.end(task_id)).end for task_id in "ab"}
    assert ends == {AttemptEnd.FINISHED, AttemptEnd.PREEMPTED}


async def test_fm_19_a_gpu_that_falls_off_the_bus_loses_its_tasks_and_takes_no_more(
    rig: Rig, gates: list[Gate], fake_nvml: FakeNvml
) -> None:
    await on_gpu(rig, "a", 1, gates[0])
    await on_gpu(rig, "b", 1, wait=True, whole_device=True)
    await on_gpu(rig, "c", 1, gates[1], device="gpu-1")
    fake_nvml.lose(0)
    unhealthy = await rig.first(DeviceUnhealthy, rig.topics.fleet, "w1")
    assert unhealthy.device_id == "gpu-0" and unhealthy.reason
    assert (await rig.end("a")).end is AttemptEnd.LOST
    await rig.first(TaskReturned, rig.topics.events, stream_of("b"))
    await on_gpu(rig, "d", 1)
    refused = await rig.first(TaskRefused, rig.topics.events, stream_of("d"))
    assert (refused.code, "has failed" in refused.message) == ("unknown_device", True)
    await gates[1].pass_one()
    assert (await rig.end("c")).end is AttemptEnd.FINISHED


async def test_bi_32_an_unknown_device_is_refused_with_the_list(rig: Rig) -> None:
    await rig.run("a", {}, device_ids=["gpu-9"], task_type="hungry")
    refused = await rig.first(TaskRefused, rig.topics.events, stream_of("a"))
    assert refused.code == "unknown_device"
    assert "cpu-0, cpu-1, gpu-0, gpu-1, gpu-2, gpu-3" in refused.message


async def test_what_a_task_uses_is_told_while_it_runs_and_at_its_end(
    rig: Rig, gates: list[Gate], fake_nvml: FakeNvml
) -> None:
    asked = {"tell_pid": True}
    await on_gpu(rig, "a", 4, gates[0], asked=asked)
    pid = await rig.pid("a")
    fake_nvml.set(0, processes=[(pid, 3 * GIB)], utilisation=64)
    await rig.messages(
        rig.topics.heartbeats,
        "w1",
        lambda all_: any(
            running.peak_cuda_memory_bytes == 3 * GIB and running.peak_memory_bytes > 0
            for beat in of(all_, WorkerHeartbeat)
            for running in beat.running
        ),
    )
    batches = await rig.messages(
        rig.topics.metrics,
        "a",
        lambda all_: (
            "system/gpu_percent"
            in {series.tag for batch in of(all_, MetricPointsReported) for series in batch.series}
        ),
    )
    tags = {series.tag for batch in of(batches, MetricPointsReported) for series in batch.series}
    assert {"system/memory_bytes", "system/cpu_percent", "system/gpu_percent"} <= tags
    lines = [line for line in metrics.exposition().decode().splitlines() if 'device="gpu-0"' in line]
    shown = {line.partition("{")[0]: float(line.split()[-1]) for line in lines}
    assert shown["trackside_worker_device_utilisation_percent"] == 64
    assert shown["trackside_worker_device_memory_bytes"] == 3 * GIB
    assert shown["trackside_worker_device_reserved_bytes"] == 4 * GIB
    assert shown["trackside_worker_device_tasks"] == 1
    await gates[0].pass_one()
    end = await rig.end("a")
    assert (end.peak_cuda_memory_bytes, end.peak_memory_bytes > 0) == (3 * GIB, True)
    story = await rig.story("a")
    assert len(of(story, TaskAccepted)) == 1
