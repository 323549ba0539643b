"""PlacementController that wait at the worker: begun when there is room, asked back, stopped, given back."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.harness import (
    Gate,
    Rig,
    hungry_settings,
    memory_log,
    of,
    running,
    stream_of,
)
from trackside.contracts.fleet import WorkerHeartbeat
from trackside.contracts.tasks import (
    AttemptEnd,
    AttemptEnded,
    RunTask,
    TaskAccepted,
    TaskRefused,
    TaskReturned,
    TaskStatus,
    TaskStatusChanged,
)
from trackside.contracts.topics import Topics


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    topics = Topics("t.")
    async with running(await memory_log(topics), topics, hungry_settings(tmp_path / "worker")) as made:
        yield made


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


async def busy(rig: Rig, gate: Gate, **more: Any) -> RunTask:
    """Runs task `a`, which trains until the gate opens; waits until it trains."""
    asked = {"train": ["wait"], "gate": str(gate.path)}
    command = await rig.run("a", asked, task_type="hungry", **more)
    await rig.statuses("a", 4)
    return command


async def behind(rig: Rig, task_id: str = "b", asked: dict[str, Any] | None = None, **more: Any) -> RunTask:
    """Sends a task that shall wait for its device, and waits until the worker has it."""
    command = await rig.run(task_id, asked or {}, task_type="hungry", wait=True, **more)
    await rig.messages(
        rig.topics.heartbeats,
        "w1",
        lambda all_: any(
            running.task_id == task_id for beat in of(all_, WorkerHeartbeat) for running in beat.running
        ),
    )
    return command


async def test_a_held_task_begins_when_the_device_is_free_and_is_accepted_only_then(
    rig: Rig, gate: Gate, tmp_path: Path
) -> None:
    await busy(rig, gate)
    await behind(rig)
    entries = [json.loads(path.read_text()) for path in (tmp_path / "worker" / "journal").iterdir()]
    assert {entry["task_id"]: entry["held"] for entry in entries} == {"a": False, "b": True}
    await gate.pass_one()
    first, second = await asyncio.gather(rig.story("a"), rig.story("b"))
    assert of(first, AttemptEnded)[0].end is AttemptEnd.FINISHED
    assert isinstance(second[0], TaskAccepted)
    assert of(second, AttemptEnded)[0].end is AttemptEnd.FINISHED
    times = await append_times(rig)
    assert times["a", "AttemptEnded"] <= times["b", "TaskAccepted"]


async def append_times(rig: Rig) -> dict[tuple[str, str], int]:
    """Gives when each kind of event of each task came to the log."""
    found = {}
    places = {(rig.topics.events.name, each): 0 for each in range(rig.topics.events.partitions)}
    reader = rig.log.reader(places)
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
    settings = hungry_settings(tmp_path / "worker", max_tasks=1, load_early=2)
    async with running(await memory_log(topics), topics, settings) as rig:
        assert (await rig.joined()).max_tasks == 1
        await busy(rig, gate)
        await behind(rig, "b")
        await behind(rig, "c", device="cpu-1")
        await rig.run("d", {}, task_type="hungry", device="cpu-1")
        refused = await rig.first(TaskRefused, rig.topics.events, stream_of("d"))
        assert refused.code in ("too_many_tasks", "device_busy")
        await gate.pass_one()
        for task_id in ("a", "b", "c"):
            assert (await rig.end(task_id)).end is AttemptEnd.FINISHED


async def test_a_task_loads_early_and_trains_when_the_device_is_free(tmp_path: Path, gate: Gate) -> None:
    topics = Topics("t.")
    settings = hungry_settings(tmp_path / "worker", load_early=1)
    async with running(await memory_log(topics), topics, settings) as rig:
        await busy(rig, gate)
        command = await rig.run("b", {}, task_type="hungry", wait=True)
        story = await rig.statuses("b", 3)
        assert isinstance(story[0], TaskAccepted)
        assert [int(event.status) for event in of(story, TaskStatusChanged)] == [2, 3, 4]
        await rig.recall(command)  # it has begun: it stays
        await behind(rig, "c")
        await gate.pass_one()
        story = await rig.story("b")
        assert of(story, TaskStatusChanged)[-1].status is TaskStatus.TRAINING
        end = of(story, AttemptEnded)[0]
        assert end.end is AttemptEnd.FINISHED and of(story, TaskReturned) == []
        assert (await rig.end("c")).end is AttemptEnd.FINISHED
        locks = tmp_path / "worker" / "locks"
        assert {path.name for path in locks.iterdir()} == {"cpu-0.lock"}


async def test_a_loaded_task_that_is_stopped_ends_at_once(tmp_path: Path, gate: Gate) -> None:
    topics = Topics("t.")
    settings = hungry_settings(tmp_path / "worker", load_early=1, stop_grace_s=600)
    async with running(await memory_log(topics), topics, settings) as rig:
        await busy(rig, gate)
        command = await rig.run("b", {}, task_type="hungry", wait=True)
        await rig.statuses("b", 3)
        await rig.stop(command, end="preempted")
        assert (await rig.end("b")).end is AttemptEnd.PREEMPTED
        await gate.pass_one()
        await rig.end("a")


async def test_a_held_task_that_is_asked_back_is_returned_and_never_runs(rig: Rig, gate: Gate) -> None:
    await busy(rig, gate)
    command = await behind(rig)
    await rig.recall(command)
    returned = await rig.first(TaskReturned, rig.topics.events, stream_of("b"))
    assert (returned.attempt, returned.placement) == (1, 1)
    await rig.send(command)  # a repeat is answered as before
    await rig.first(TaskReturned, rig.topics.events, stream_of("b"), nth=2)
    await gate.pass_one()
    await rig.end("a")
    again = await rig.run("b", {}, task_type="hungry", placement=2)
    story = await rig.story("b")
    assert [event.placement for event in of(story, TaskAccepted)] == [again.placement]


async def test_a_task_that_has_begun_is_not_returned(rig: Rig, gate: Gate) -> None:
    command = await busy(rig, gate)
    await rig.recall(command)
    await rig.first(TaskAccepted, rig.topics.events, stream_of("a"), nth=2)
    await gate.pass_one()
    story = await rig.story("a")
    assert of(story, TaskReturned) == []


async def test_a_task_that_is_asked_back_before_it_came_is_returned_and_never_runs(rig: Rig) -> None:
    incarnation = (await rig.joined()).incarnation
    command = await rig.run("a", {}, task_type="hungry", incarnation="none")  # only to have its fields
    command = command.model_copy(update={"incarnation": incarnation})
    await rig.recall(command)
    await rig.first(TaskReturned, rig.topics.events, stream_of("a"))
    await rig.send(command)
    await rig.first(TaskReturned, rig.topics.events, stream_of("a"), nth=2)


@pytest.mark.parametrize("end", ["cancelled", "preempted", "timed_out_run"])
async def test_a_held_task_that_is_stopped_ends_as_it_was_asked_to(rig: Rig, gate: Gate, end: str) -> None:
    await busy(rig, gate)
    command = await behind(rig)
    await rig.stop(command, end=end)
    story = await rig.story("b")
    assert of(story, TaskAccepted) == [] and of(story, AttemptEnded)[0].end == end
    await gate.pass_one()
    assert (await rig.end("a")).end is AttemptEnd.FINISHED


async def test_a_worker_that_leaves_returns_what_it_held(rig: Rig, gate: Gate) -> None:
    await busy(rig, gate)
    await behind(rig)
    rig.leaving.set()
    await rig.first(TaskReturned, rig.topics.events, stream_of("b"))
    assert (await rig.end("a")).end is AttemptEnd.LOST


async def test_a_worker_that_was_lost_returns_what_it_held(rig: Rig, gate: Gate) -> None:
    first = await rig.joined()
    await busy(rig, gate)
    await behind(rig)
    await rig.lose(first.incarnation)
    await rig.joined(nth=2)
    await rig.first(TaskReturned, rig.topics.events, stream_of("b"))
    assert (await rig.end("a")).end is AttemptEnd.LOST


async def test_nobody_overtakes_who_waits_for_a_device(rig: Rig, gate: Gate) -> None:
    await busy(rig, gate)
    await behind(rig, "b", {"train": ["wait"], "gate": str(gate.path)})
    await behind(rig, "c")
    await rig.run("d", {}, task_type="hungry")
    refused = await rig.first(TaskRefused, rig.topics.events, stream_of("d"))
    assert refused.code == "device_busy"
    await gate.pass_one()
    await rig.statuses("b", 4)
    await gate.pass_one()
    await rig.end("c")
    times = await append_times(rig)
    assert times["b", "AttemptEnded"] <= times["c", "TaskAccepted"]
