"""Placements that wait at the worker: begun when there is room, asked back, stopped, given back."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.given import SHARES, shared_worker, worker_with
from tests.integration.worker.harness import Gate, WorkerHarness, of, scripted_settings
from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Event
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAccepted,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
)

pytestmark = SHARES
worker = shared_worker(lambda folder: scripted_settings(folder / "worker"))


async def occupy_device(harness: WorkerHarness, gate: Gate, **more: Any) -> RunTask:
    """Runs task `a`, which trains until the gate opens; waits until it trains."""
    command = await harness.run("a", gate.waits, task_type="scripted", **more)
    await harness.statuses("a", 4)
    return command


async def send_waiting(
    harness: WorkerHarness, task_id: str = "b", requested: dict[str, Any] | None = None, **more: Any
) -> RunTask:
    """Sends a task that waits for its device, and waits until the worker has accepted it."""
    command = await harness.run(task_id, requested or {}, task_type="scripted", wait=True, **more)
    await harness.is_held(task_id)
    return command


async def test_a_held_task_begins_when_the_device_is_free_and_is_accepted_only_then(
    harness: WorkerHarness, gate: Gate
) -> None:
    await occupy_device(harness, gate)
    await send_waiting(harness)
    entries = [json.loads(path.read_text()) for path in (harness.data_dir / "journal").iterdir()]
    held = {entry["task_id"]: entry["held"] for entry in entries}
    assert held == {harness.own("a"): False, harness.own("b"): True}
    await gate.pass_one()
    first, second = await asyncio.gather(harness.events_until_end("a"), harness.events_until_end("b"))
    assert of(first, AttemptEnded)[0].end is AttemptEnd.FINISHED
    assert isinstance(second[0], TaskAccepted)
    assert of(second, AttemptEnded)[0].end is AttemptEnd.FINISHED
    assert await append_time(harness, AttemptEnded, "a") <= await append_time(harness, TaskAccepted, "b")


async def append_time(harness: WorkerHarness, kind: type[Event], task_id: str) -> int:
    """Returns when the first event of a kind of a task was appended, in ms."""
    entries = await harness.entries_so_far(task_id)
    kinds = [CODEC.envelope(entry.headers).type for entry in entries]
    return entries[kinds.index(kind.wire_type())].append_time_ms


async def test_t19_with_one_process_allowed_all_that_wait_run_one_after_another(
    tmp_path: Path, gate: Gate
) -> None:
    """The reference deadlocked: a loaded task never trained while as many processes ran as may."""
    async with worker_with(scripted_settings(tmp_path / "worker", max_tasks=1, load_early=2)) as harness:
        assert (await harness.joined()).max_tasks == 1
        await occupy_device(harness, gate)
        await send_waiting(harness, "b")
        await send_waiting(harness, "c", device="cpu-1")
        refused = await harness.refused("d", task_type="scripted", device="cpu-1")
        assert refused.code in ("too_many_tasks", "device_busy")
        await gate.pass_one()
        for task_id in ("a", "b", "c"):
            assert (await harness.end(task_id)).end is AttemptEnd.FINISHED


async def test_a_task_loads_early_and_trains_when_the_device_is_free_or_ends_at_once_when_it_is_stopped(
    tmp_path: Path, gate: Gate
) -> None:
    settings = scripted_settings(tmp_path / "worker", load_early=1, stop_grace_s=600)
    async with worker_with(settings) as harness:
        await occupy_device(harness, gate)
        stopped = await harness.run("s", {}, task_type="scripted", wait=True)
        await harness.statuses("s", 3)
        await harness.stop(stopped, end="preempted")
        assert (await harness.end("s")).end is AttemptEnd.PREEMPTED
        command = await harness.run("b", {}, task_type="scripted", wait=True)
        story = await harness.statuses("b", 3)
        assert isinstance(story[0], TaskAccepted)
        assert [int(event.status) for event in of(story, TaskStatusChanged)] == [2, 3, 4]
        await harness.recall(command)  # it has begun: it stays
        await harness.event(TaskAccepted, "b", nth=2)
        await send_waiting(harness, "c")
        await gate.pass_one()
        story = await harness.events_until_end("b")
        assert of(story, TaskStatusChanged)[-1].status is TaskStatus.TRAINING
        end = of(story, AttemptEnded)[0]
        assert end.end is AttemptEnd.FINISHED and of(story, TaskReturned) == []
        assert (await harness.end("c")).end is AttemptEnd.FINISHED
        locks = tmp_path / "worker" / "locks"
        assert {path.name for path in locks.iterdir()} == {"cpu-0.lock"}


async def test_a_held_task_that_is_asked_back_is_returned_and_never_runs(
    harness: WorkerHarness, gate: Gate
) -> None:
    await occupy_device(harness, gate)
    command = await send_waiting(harness)
    await harness.recall(command)
    returned = await harness.event(TaskReturned, "b")
    assert (returned.attempt, returned.placement) == (1, 1)
    await harness.send(command)  # a repeat is answered as before
    await harness.event(TaskReturned, "b", nth=2)
    await gate.pass_one()
    await harness.end("a")
    again = await harness.run("b", {}, task_type="scripted", placement=2)
    story = await harness.events_until_end("b")
    assert [event.placement for event in of(story, TaskAccepted)] == [again.placement]


@pytest.mark.parametrize("end", ["cancelled", "preempted", "timed_out_run"])
async def test_a_held_task_that_is_stopped_ends_as_it_was_asked_to(
    harness: WorkerHarness, gate: Gate, end: str
) -> None:
    await occupy_device(harness, gate)
    command = await send_waiting(harness)
    await harness.stop(command, end=end)
    story = await harness.events_until_end("b")
    assert of(story, TaskAccepted) == [] and of(story, AttemptEnded)[0].end == end
    await gate.pass_one()
    assert (await harness.end("a")).end is AttemptEnd.FINISHED


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "was lost"])
async def test_a_worker_that_leaves_or_was_lost_returns_what_it_held(
    tmp_path: Path, gate: Gate, leaves: bool
) -> None:
    async with worker_with(scripted_settings(tmp_path / "worker")) as harness:
        await occupy_device(harness, gate)
        await send_waiting(harness)
        if leaves:
            harness.leaving.set()
        else:
            await harness.declare_lost((await harness.joined()).incarnation)
            await harness.joined(nth=2)
        await harness.event(TaskReturned, "b")
        assert (await harness.end("a")).end is AttemptEnd.LOST


async def test_nobody_overtakes_who_waits_for_a_device(harness: WorkerHarness, gate: Gate) -> None:
    await occupy_device(harness, gate)
    await send_waiting(harness, "b", gate.waits)
    await send_waiting(harness, "c")
    assert (await harness.refused("d", task_type="scripted")).code == "device_busy"
    await gate.pass_one()
    await harness.statuses("b", 4)
    await gate.pass_one()
    await harness.end("c")
    assert await append_time(harness, AttemptEnded, "b") <= await append_time(harness, TaskAccepted, "c")
