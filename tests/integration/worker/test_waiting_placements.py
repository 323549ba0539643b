"""PlacementController that wait at the worker: begun when there is room, asked back, stopped, given back."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.harness import (
    Gate,
    WorkerHarness,
    memory_log,
    of,
    running,
    scripted_settings,
    stream_of,
)
from trackside.contracts.device_commands import RunTask
from trackside.contracts.fleet import WorkerHeartbeat
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAccepted,
    TaskRefused,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.contracts.topics import Topics


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[WorkerHarness]:
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, scripted_settings(tmp_path / "worker")) as made:
        yield made


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


async def occupy_device(harness: WorkerHarness, gate: Gate, **more: Any) -> RunTask:
    """Runs task `a`, which trains until the gate opens; waits until it trains."""
    requested = {"train": ["wait"], "gate": str(gate.path)}
    command = await harness.run("a", requested, task_type="scripted", **more)
    await harness.statuses("a", 4)
    return command


async def send_waiting(
    harness: WorkerHarness, task_id: str = "b", requested: dict[str, Any] | None = None, **more: Any
) -> RunTask:
    """Sends a task that waits for its device, and waits until the worker has accepted it."""
    command = await harness.run(task_id, requested or {}, task_type="scripted", wait=True, **more)
    await harness.messages(
        harness.topics.heartbeats,
        "w1",
        lambda all_: any(
            running.task_id == task_id for beat in of(all_, WorkerHeartbeat) for running in beat.running
        ),
    )
    return command


async def test_a_held_task_begins_when_the_device_is_free_and_is_accepted_only_then(
    harness: WorkerHarness, gate: Gate, tmp_path: Path
) -> None:
    await occupy_device(harness, gate)
    await send_waiting(harness)
    entries = [json.loads(path.read_text()) for path in (tmp_path / "worker" / "journal").iterdir()]
    assert {entry["task_id"]: entry["held"] for entry in entries} == {"a": False, "b": True}
    await gate.pass_one()
    first, second = await asyncio.gather(harness.events_until_end("a"), harness.events_until_end("b"))
    assert of(first, AttemptEnded)[0].end is AttemptEnd.FINISHED
    assert isinstance(second[0], TaskAccepted)
    assert of(second, AttemptEnded)[0].end is AttemptEnd.FINISHED
    times = await append_times(harness)
    assert times["a", "AttemptEnded"] <= times["b", "TaskAccepted"]


async def append_times(harness: WorkerHarness) -> dict[tuple[str, str], int]:
    """Returns when the events were appended, in ms, by task and type."""
    found = {}
    places = {(harness.topics.events.name, each): 0 for each in range(harness.topics.events.partitions)}
    reader = harness.log.reader(places)
    for entry in await reader.read(1.0):
        headers = dict(entry.headers)
        kind = (headers["ce_type"] or b"").decode().removeprefix("trackside.").rpartition(".")[0]
        name = "".join(part.capitalize() for part in kind.split("-"))
        found[(entry.key or b"").decode().removeprefix("s-"), name] = entry.append_time_ms
    await reader.close()
    return found


async def test_t19_with_one_process_allowed_all_that_wait_run_one_after_another(
    tmp_path: Path, gate: Gate
) -> None:
    """The reference deadlocked: a loaded task never trained while as many processes ran as may."""
    topics = Topics("t.")
    settings = scripted_settings(tmp_path / "worker", max_tasks=1, load_early=2)
    async with running(await memory_log(topics), topics, settings) as harness:
        assert (await harness.joined()).max_tasks == 1
        await occupy_device(harness, gate)
        await send_waiting(harness, "b")
        await send_waiting(harness, "c", device="cpu-1")
        await harness.run("d", {}, task_type="scripted", device="cpu-1")
        refused = await harness.first(TaskRefused, harness.topics.events, stream_of("d"))
        assert refused.code in ("too_many_tasks", "device_busy")
        await gate.pass_one()
        for task_id in ("a", "b", "c"):
            assert (await harness.end(task_id)).end is AttemptEnd.FINISHED


async def test_a_task_loads_early_and_trains_when_the_device_is_free(tmp_path: Path, gate: Gate) -> None:
    topics = Topics("t.")
    settings = scripted_settings(tmp_path / "worker", load_early=1)
    async with running(await memory_log(topics), topics, settings) as harness:
        await occupy_device(harness, gate)
        command = await harness.run("b", {}, task_type="scripted", wait=True)
        story = await harness.statuses("b", 3)
        assert isinstance(story[0], TaskAccepted)
        assert [int(event.status) for event in of(story, TaskStatusChanged)] == [2, 3, 4]
        await harness.recall(command)  # it has begun: it stays
        await send_waiting(harness, "c")
        await gate.pass_one()
        story = await harness.events_until_end("b")
        assert of(story, TaskStatusChanged)[-1].status is TaskStatus.TRAINING
        end = of(story, AttemptEnded)[0]
        assert end.end is AttemptEnd.FINISHED and of(story, TaskReturned) == []
        assert (await harness.end("c")).end is AttemptEnd.FINISHED
        locks = tmp_path / "worker" / "locks"
        assert {path.name for path in locks.iterdir()} == {"cpu-0.lock"}


async def test_a_loaded_task_that_is_stopped_ends_at_once(tmp_path: Path, gate: Gate) -> None:
    topics = Topics("t.")
    settings = scripted_settings(tmp_path / "worker", load_early=1, stop_grace_s=600)
    async with running(await memory_log(topics), topics, settings) as harness:
        await occupy_device(harness, gate)
        command = await harness.run("b", {}, task_type="scripted", wait=True)
        await harness.statuses("b", 3)
        await harness.stop(command, end="preempted")
        assert (await harness.end("b")).end is AttemptEnd.PREEMPTED
        await gate.pass_one()
        await harness.end("a")


async def test_a_held_task_that_is_asked_back_is_returned_and_never_runs(
    harness: WorkerHarness, gate: Gate
) -> None:
    await occupy_device(harness, gate)
    command = await send_waiting(harness)
    await harness.recall(command)
    returned = await harness.first(TaskReturned, harness.topics.events, stream_of("b"))
    assert (returned.attempt, returned.placement) == (1, 1)
    await harness.send(command)  # a repeat is answered as before
    await harness.first(TaskReturned, harness.topics.events, stream_of("b"), nth=2)
    await gate.pass_one()
    await harness.end("a")
    again = await harness.run("b", {}, task_type="scripted", placement=2)
    story = await harness.events_until_end("b")
    assert [event.placement for event in of(story, TaskAccepted)] == [again.placement]


async def test_a_task_that_has_begun_is_not_returned(harness: WorkerHarness, gate: Gate) -> None:
    command = await occupy_device(harness, gate)
    await harness.recall(command)
    await harness.first(TaskAccepted, harness.topics.events, stream_of("a"), nth=2)
    await gate.pass_one()
    story = await harness.events_until_end("a")
    assert of(story, TaskReturned) == []


async def test_a_task_that_is_asked_back_before_it_came_is_returned_and_never_runs(
    harness: WorkerHarness,
) -> None:
    incarnation = (await harness.joined()).incarnation
    command = await harness.run("a", {}, task_type="scripted", incarnation="none")  # only to have its fields
    command = command.model_copy(update={"incarnation": incarnation})
    await harness.recall(command)
    await harness.first(TaskReturned, harness.topics.events, stream_of("a"))
    await harness.send(command)
    await harness.first(TaskReturned, harness.topics.events, stream_of("a"), nth=2)


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


async def test_a_worker_that_leaves_returns_what_it_held(harness: WorkerHarness, gate: Gate) -> None:
    await occupy_device(harness, gate)
    await send_waiting(harness)
    harness.leaving.set()
    await harness.first(TaskReturned, harness.topics.events, stream_of("b"))
    assert (await harness.end("a")).end is AttemptEnd.LOST


async def test_a_worker_that_was_lost_returns_what_it_held(harness: WorkerHarness, gate: Gate) -> None:
    first = await harness.joined()
    await occupy_device(harness, gate)
    await send_waiting(harness)
    await harness.declare_lost(first.incarnation)
    await harness.joined(nth=2)
    await harness.first(TaskReturned, harness.topics.events, stream_of("b"))
    assert (await harness.end("a")).end is AttemptEnd.LOST


async def test_nobody_overtakes_who_waits_for_a_device(harness: WorkerHarness, gate: Gate) -> None:
    await occupy_device(harness, gate)
    await send_waiting(harness, "b", {"train": ["wait"], "gate": str(gate.path)})
    await send_waiting(harness, "c")
    await harness.run("d", {}, task_type="scripted")
    refused = await harness.first(TaskRefused, harness.topics.events, stream_of("d"))
    assert refused.code == "device_busy"
    await gate.pass_one()
    await harness.statuses("b", 4)
    await gate.pass_one()
    await harness.end("c")
    times = await append_times(harness)
    assert times["b", "AttemptEnded"] <= times["c", "TaskAccepted"]
