"""Memory that runs out: in load, in train, of the host, of a device, by a kill; and disks that are full."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.given import SHARES, shared_worker
from tests.integration.worker.harness import WorkerHarness, error_of, of, scripted_settings, stream_of
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.summaries import OutputWritten
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    MetricReported,
    Reservation,
    TaskAccepted,
    TaskInterrupted,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.worker.attempts.memory.cgroups import cgroups_of
from trackside.worker.reporting.journal import JournalEntry

MIB = 2**20
pytestmark = SHARES
worker = shared_worker(lambda folder: scripted_settings(folder / "worker"))


async def scripted(
    harness: WorkerHarness, parameters: dict[str, Any], task_id: str = "a", **more: Any
) -> list[Message]:
    """Runs a task to its end; gives all events of it."""
    return await harness.story(task_id, parameters, **{"task_type": "scripted", **more})


async def finishes(harness: WorkerHarness, task_id: str = "b", **more: Any) -> bool:
    return of(await scripted(harness, {}, task_id, **more), AttemptEnded)[0].end is AttemptEnd.FINISHED


def phases(story: list[Message]) -> list[tuple[TaskStatus, int]]:
    return [(event.status, event.interrupts) for event in of(story, TaskStatusChanged)]


async def test_t1_t4_statuses_come_in_order_with_their_numbers(harness: WorkerHarness) -> None:
    story = await scripted(harness, {})
    entered = [f"{int(status)} {status.name}" for status, _ in phases(story)]
    assert entered == ["2 AVAILABLE", "3 LOADING", "4 WAITING", "5 TRAINING"]
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED


@pytest.mark.parametrize(
    ("how", "resource"), [("host", "host"), ("chained", "host"), ("device", "device"), ("text", "device")]
)
async def test_t8_a_train_that_runs_out_of_memory_trains_again_without_loading_again(
    harness: WorkerHarness, tmp_path: Path, how: str, resource: str
) -> None:
    """T6, T8, FM-18."""
    notes = tmp_path / "notes"
    reserved = Reservation(memory_bytes=40 * MIB, cuda_memory_bytes=100)
    requested = {"train": [how, "ok"], "notes": str(notes), "report": [0.5]}
    story = await scripted(harness, requested, interrupts=2, reserved=reserved)
    (interrupted,) = of(story, TaskInterrupted)
    assert (interrupted.interrupt, interrupted.resource) == (1, resource)
    assert interrupted.error.stage == "TRAIN" and "scripted.py" in interrupted.error.traceback
    assert interrupted.reserved.estimated_by == "raised"
    grown = interrupted.reserved.memory_bytes, interrupted.reserved.cuda_memory_bytes
    assert (grown[0] >= 60 * MIB, grown[1] == 150) == (resource == "host", resource == "device")
    loading, waiting, training = TaskStatus.LOADING, TaskStatus.WAITING, TaskStatus.TRAINING
    assert phases(story)[1:] == [(loading, 0), (waiting, 0), (training, 0), (waiting, 1), (training, 1)]
    told = [(event.step, event.interrupts) for event in of(story, MetricReported)]
    assert told == [(0, 0), (0, 1)]
    end = of(story, AttemptEnded)[0]
    assert end.end is AttemptEnd.FINISHED and end.peak_memory_bytes > MIB
    began = notes.read_text().splitlines()
    assert [line.split()[0] for line in began] == ["load", "train", "train"]
    assert len({line.split()[1] for line in began}) == 1  # one process


async def test_t8_after_the_last_interrupt_the_attempt_ends_with_its_peaks(harness: WorkerHarness) -> None:
    story = await scripted(harness, {"train": ["device"] * 3, "keep": 64 * MIB}, interrupts=2)
    assert [event.interrupt for event in of(story, TaskInterrupted)] == [1, 2]
    end = of(story, AttemptEnded)[0]
    assert end.end is AttemptEnd.OOM_DEVICE and end.error is not None
    assert (end.error.stage, end.error.type) == ("TRAIN", "OutOfMemoryError")
    assert end.peak_memory_bytes >= 64 * MIB


async def test_interrupts_of_earlier_placements_count(harness: WorkerHarness) -> None:
    """An attempt that was preempted after an interrupt goes on to count where it was."""
    story = await scripted(
        harness, {"train": ["host", "ok"], "report": [0.5]}, interrupts=1, interrupted=2, placement=2
    )
    assert [event.interrupt for event in of(story, TaskInterrupted)] == [3]
    assert [count for _, count in phases(story)] == [2, 2, 2, 2, 3, 3]
    assert [event.interrupts for event in of(story, MetricReported)] == [2, 3]


async def test_the_memory_of_a_train_that_failed_is_free_when_it_trains_again(harness: WorkerHarness) -> None:
    story = await scripted(harness, {"train": ["host", "ok"], "keep": 256 * MIB}, interrupts=1)
    end = of(story, AttemptEnded)[0]
    assert end.result is not None and end.result["before"] < 200 * MIB
    assert end.peak_memory_bytes > 256 * MIB


@pytest.mark.parametrize(("how", "end"), [("host", AttemptEnd.OOM_HOST), ("device", AttemptEnd.OOM_DEVICE)])
async def test_t7_a_load_that_runs_out_of_memory_ends_and_a_new_process_loads_again(
    harness: WorkerHarness, tmp_path: Path, how: str, end: AttemptEnd
) -> None:
    """T5, T7, FM-17: the reference wrote to a closed pipe here, and hung."""
    notes = {"notes": str(tmp_path / "notes")}
    story = await scripted(harness, {"load": [how], **notes}, interrupts=2)
    first = of(story, AttemptEnded)[0]
    assert first.end is end and first.error is not None and first.error.stage == "LOAD"
    assert of(story, TaskInterrupted) == []
    await harness.run("a", notes, task_type="scripted", attempt=2)
    assert (await harness.end("a", nth=2)).end is AttemptEnd.FINISHED
    loads = [line for line in (tmp_path / "notes").read_text().splitlines() if line.startswith("load")]
    assert len(set(loads)) == 2  # each in a process of its own


@pytest.mark.parametrize("phase", ["load", "train"])
async def test_t11_a_process_that_is_killed_is_noticed_and_its_device_is_free(
    harness: WorkerHarness, phase: str
) -> None:
    """The reference never noticed: it wrote to a broken pipe, and hung."""
    story = await scripted(harness, {phase: ["killed"]}, interrupts=2)
    end = of(story, AttemptEnded)[0]
    assert (end.end, end.exit_code) == (AttemptEnd.FAILED, -9)
    assert end.error is not None and end.error.stage == phase.upper()
    assert await finishes(harness)


async def test_fm_21_a_full_disk_fails_the_attempt_and_says_so(harness: WorkerHarness) -> None:
    end = of(await scripted(harness, {"train": ["disk"]}), AttemptEnded)[0]
    assert error_of(end, "TRAIN", "OSError").message.startswith("the disk is full")


def make_unwritable(harness: WorkerHarness, folder: str, incarnation: str) -> None:
    """Fills the disk for what the worker writes of task `a` into a folder."""
    placement = JournalEntry(stream_of(harness.own("a")), harness.own("a"), 1, 1, incarnation)
    (harness.data_dir / folder / f"{placement.key}.unfinished").symlink_to("/dev/full")


async def test_fm_21_an_ending_that_cannot_be_written_is_told_all_the_same(harness: WorkerHarness) -> None:
    make_unwritable(harness, "endings", (await harness.joined()).incarnation)
    end = of(await scripted(harness, {"report": [0.5]}), AttemptEnded)[0]
    assert end.end is AttemptEnd.FINISHED and end.result is not None
    written = await harness.first(OutputWritten, harness.topics.logs, "a")
    assert "No space left on device" in written.lines[0]


async def test_fm_21_a_worker_whose_disk_is_full_refuses_and_goes_on(harness: WorkerHarness) -> None:
    make_unwritable(harness, "journal", (await harness.joined()).incarnation)
    refused = await harness.refused("a", task_type="scripted")
    assert refused.code == "journal_unwritable" and "No space left" in refused.message
    story = await scripted(harness, {}, "b")
    assert len(of(story, TaskAccepted)) == 1 and of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED


async def test_t18_what_does_not_fit_on_the_host_or_is_more_than_its_type_may_have_is_refused(
    harness: WorkerHarness,
) -> None:
    refused = await harness.refused("a", task_type="modest", reserved=Reservation(memory_bytes=2**31))
    assert refused.code == "out_of_memory" and "modest" in refused.message
    host = (await harness.joined()).memory_bytes
    assert host > 0
    reserved = Reservation(memory_bytes=host + 1)
    assert (await harness.refused("b", task_type="scripted", reserved=reserved)).code == "out_of_memory"


async def test_t17_a_training_that_runs_out_of_memory_requests_no_more_than_its_type_may(
    harness: WorkerHarness,
) -> None:
    reserved = Reservation(memory_bytes=800 * MIB)
    requested = {"train": ["host", "ok"]}
    story = await scripted(harness, requested, task_type="modest", interrupts=1, reserved=reserved)
    assert of(story, TaskInterrupted)[0].reserved.memory_bytes == 1024 * MIB
    assert of(story, AttemptEnded)[0].end is AttemptEnd.FINISHED


async def test_t6_a_task_that_uses_more_than_its_type_may_is_killed_by_its_cgroup(
    harness: WorkerHarness, tmp_path: Path
) -> None:
    probe = cgroups_of("probe", tmp_path, 0)
    probe.close()
    if "memory" not in probe.folders:
        pytest.skip("this host has no memory cgroup that may be written to")
    await harness.run("a", {"train": ["much"]}, task_type="capped")
    await harness.run("b", {"train": ["much", "ok"]}, task_type="scripted", device="cpu-1")
    end = await harness.end("a")
    assert (end.end, end.exit_code, end.limit) == (AttemptEnd.OOM_HOST, -9, "max_memory")
    assert end.limit_bytes == 256 * MIB == (await harness.joined()).max_memory_bytes["capped"]
    assert end.error is not None and "killed at max_memory of its task type" in end.error.message
    assert (await harness.end("b")).end is AttemptEnd.FINISHED
    end = of(await scripted(harness, {"train": ["killed"]}, "killed"), AttemptEnded)[0]
    assert (end.end, end.exit_code) == (AttemptEnd.FAILED, -9), "the kernel's kill was another task's"
    assert await finishes(harness, "c", task_type="capped")
