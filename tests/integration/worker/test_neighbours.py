"""Several workers on one host: a GPU or memory that one has given to a task is not given away by another."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.integration.worker.given import task_of
from tests.integration.worker.harness import (
    Gate,
    WorkerHarness,
    memory_log,
    of,
    running,
    scripted_settings,
    stream_of,
)
from tests.integration.worker.test_warm_processes import SCRIPT, WARM
from tests.nvml.standin import GIB, FakeNvml
from trackside.contracts.device_commands import RunTask
from trackside.contracts.fleet import WorkerHeartbeat
from trackside.contracts.tasks import AttemptEnd, Reservation, TaskAccepted, TaskRefused
from trackside.contracts.topics import Topics
from trackside.worker.host.neighbours import Neighbour, Neighbourhood, NeighbourTask
from trackside.worker.host.shared_folder import SharedFolder, SharedFolderError


@dataclass
class Host:
    """Two workers on one host, of one log."""

    first: WorkerHarness
    second: WorkerHarness
    folder: Path


@contextlib.asynccontextmanager
async def two_workers(folder: Path, **more: Any) -> AsyncIterator[Host]:
    topics, shared = Topics("t."), folder / "host"
    log = await memory_log(topics)
    settings = [
        scripted_settings(folder / name, id=name, host_dir=shared, watch_interval_s=0.05, **more)
        for name in ("w1", "w2")
    ]
    async with running(log, topics, settings[0]) as first, running(log, topics, settings[1]) as second:
        yield Host(first, second, shared)


@pytest.fixture
async def host(tmp_path: Path, fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Host]:
    fake_nvml.load(monkeypatch)
    async with two_workers(tmp_path) as made:
        yield made


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path / "gate")


async def run_on_gpu(
    worker: WorkerHarness, task_id: str, cuda_gib: int, gate: Gate | None = None, **more: Any
) -> RunTask:
    """Runs a task on gpu-0; with a gate it trains until that opens, and this waits until it trains."""
    parameters = {"train": ["wait"], "gate": str(gate.path)} if gate is not None else {}
    reserved = more.pop("reserved", Reservation(cuda_memory_bytes=cuda_gib * GIB))
    more = {"device": "gpu-0", "task_type": "scripted", "reserved": reserved, **more}
    command = await worker.run(task_id, parameters, **more)
    if gate is not None:
        await worker.statuses(task_id, 4)
    return command


async def heartbeat(worker: WorkerHarness, wanted: Callable[[WorkerHeartbeat], bool]) -> WorkerHeartbeat:
    """Waits for a heartbeat of a worker."""
    beats = await worker.messages(
        worker.topics.heartbeats,
        worker.worker_id,
        lambda all_: any(map(wanted, of(all_, WorkerHeartbeat))),
    )
    return next(beat for beat in of(beats, WorkerHeartbeat) if wanted(beat))


async def is_held(worker: WorkerHarness, task_id: str) -> None:
    """Waits until a worker has a task, and has looked at its neighbours since."""
    await heartbeat(worker, lambda beat: any(each.task_id == task_id for each in beat.running))


async def test_t18_a_gpu_that_another_worker_has_given_away_is_refused_with_its_name(
    host: Host, gate: Gate
) -> None:
    await run_on_gpu(host.first, "a", 14, gate)
    incarnation = (await host.first.joined()).incarnation
    await heartbeat(host.second, lambda beat: any(each.device_bytes for each in beat.neighbours))
    await run_on_gpu(host.second, "b", 14)
    refused = await host.second.first(TaskRefused, host.second.topics.events, stream_of("b"))
    assert (refused.code, refused.message) == (
        "out_of_memory",
        "needs 14 GiB of gpu-0, which has 2 GiB left: task a of worker w1, on the same host, has 14 GiB",
    )
    beat = await heartbeat(host.second, lambda beat: bool(beat.neighbours))
    assert [(each.incarnation, each.device_bytes) for each in beat.neighbours] == [
        (incarnation, {"gpu-0": 14 * GIB})
    ]
    await gate.pass_one()
    await host.first.end("a")


async def test_t18_a_task_waits_until_the_gpu_is_free_on_the_other_worker(host: Host, gate: Gate) -> None:
    with capture_logs() as logged:
        await run_on_gpu(host.first, "a", 14, gate)
        await run_on_gpu(host.second, "b", 14, wait=True)
        await is_held(host.second, "b")
        assert of(await host.second.events_so_far("b"), TaskAccepted) == []
        await gate.pass_one()
        first, second = await host.first.end("a"), await host.second.end("b")
    assert (first.end, second.end) == (AttemptEnd.FINISHED, AttemptEnd.FINISHED)
    reasons = [line.get("reason", "") for line in logged]
    assert any("task a of worker w1, on the same host, has 14 GiB" in reason for reason in reasons)


async def test_two_workers_that_begin_at_once_do_not_both_get_the_gpu(host: Host, tmp_path: Path) -> None:
    gates = [Gate(tmp_path / name) for name in ("gate-a", "gate-b")]
    await asyncio.gather(host.first.joined(), host.second.joined())
    commands = [
        worker.run(
            name,
            {"train": ["wait"], "gate": str(gate.path)},
            device="gpu-0",
            task_type="scripted",
            wait=True,
            reserved=Reservation(cuda_memory_bytes=14 * GIB),
        )
        for name, worker, gate in zip("ab", (host.first, host.second), gates, strict=True)
    ]
    await asyncio.gather(*commands)
    trains = {
        asyncio.create_task(host.first.statuses("a", 4)): 0,
        asyncio.create_task(host.second.statuses("b", 4)): 1,
    }
    done, waiting = await asyncio.wait(trains, return_when=asyncio.FIRST_COMPLETED)
    [winner] = [trains[each] for each in done]
    loser = 1 - winner
    assert of(await host.first.events_so_far("ab"[loser]), TaskAccepted) == []
    await gates[winner].pass_one()
    await asyncio.wait(waiting)
    await gates[loser].pass_one()
    assert {(await host.first.end(name)).end for name in "ab"} == {AttemptEnd.FINISHED}


async def test_a_whole_gpu_is_whole_for_all_workers(host: Host, gate: Gate) -> None:
    await run_on_gpu(host.first, "a", 1, gate, whole_device=True)
    await heartbeat(
        host.second, lambda beat: any(each.device_bytes == {"gpu-0": 16 * GIB} for each in beat.neighbours)
    )
    await run_on_gpu(host.second, "b", 1)
    refused = await host.second.first(TaskRefused, host.second.topics.events, stream_of("b"))
    assert refused.code == "device_busy"
    assert refused.message == "gpu-0 runs task a of worker w1, on the same host"
    await gate.pass_one()
    await host.first.end("a")


async def test_t18_the_memory_of_the_host_is_given_away_once(host: Host, gate: Gate) -> None:
    joined = await host.first.joined()
    assert joined.memory_pool and joined.memory_pool == (await host.second.joined()).memory_pool
    much = Reservation(memory_bytes=joined.memory_bytes * 6 // 10)
    await run_on_gpu(host.first, "a", 0, gate, reserved=much)
    await run_on_gpu(host.second, "b", 0, device="gpu-1", reserved=much, wait=True)
    await is_held(host.second, "b")
    assert of(await host.second.events_so_far("b"), TaskAccepted) == []
    await gate.pass_one()
    assert (await host.second.end("b")).end is AttemptEnd.FINISHED


async def test_what_tasks_of_a_neighbour_use_is_not_foreign(
    host: Host, gate: Gate, fake_nvml: FakeNvml
) -> None:
    command = await host.first.run(
        "a",
        {"tell_pid": True, "train": ["wait"], "gate": str(gate.path)},
        device="gpu-0",
        task_type="scripted",
        reserved=Reservation(cuda_memory_bytes=6 * GIB),
    )
    pid = await host.first.pid(command.task_id)
    fake_nvml.set(0, processes=[(pid, 5 * GIB), (1, GIB)])
    await heartbeat(
        host.second,
        lambda beat: any((each.used_bytes, each.foreign_bytes) == (6 * GIB, GIB) for each in beat.devices),
    )
    await gate.pass_one()
    await host.first.end("a")


async def test_a_warm_process_ends_when_a_task_of_another_worker_needs_its_gpu(
    tmp_path: Path, fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvml.load(monkeypatch)
    catalogue = task_of(tmp_path, SCRIPT, WARM)
    async with two_workers(tmp_path, catalogue=catalogue) as host:
        await host.first.run("a", {}, device="gpu-0", task_type="a")
        await host.first.end("a")
        await host.second.run("b", {}, device="gpu-0", task_type="a", wait=True, whole_device=True)
        assert (await host.second.end("b")).end is AttemptEnd.FINISHED


def uses_gpu(task_id: str) -> Neighbour:
    task = NeighbourTask(task_id=task_id, stage="runs", uuids=("GPU-7",), cuda_memory_bytes=14 * GIB)
    return Neighbour(worker_id=task_id, incarnation=task_id, tasks=(task,))


def neighbourhoods(tmp_path: Path) -> list[Neighbourhood]:
    made = []
    for name in ("w1", "w2"):
        (tmp_path / name).mkdir(exist_ok=True)
        made.append(Neighbourhood(SharedFolder(tmp_path / "host"), tmp_path / name))
    return made


def test_what_a_worker_has_counts_until_it_is_gone(tmp_path: Path) -> None:
    first, second = neighbourhoods(tmp_path)
    with first.deciding() as decides:
        assert decides
        first.publish(uses_gpu("a"))
        with second.deciding() as decides_too:
            assert not decides_too
    with second.deciding():
        assert second.others == (uses_gpu("a"),)
    first.close()
    with second.deciding():
        assert not second.others
    second.close()


def test_the_file_of_a_worker_that_was_killed_counts_for_nothing_and_is_removed(tmp_path: Path) -> None:
    first, second = neighbourhoods(tmp_path)
    with first.deciding():
        first.publish(uses_gpu("a"))
    left = next((tmp_path / "host").glob("worker-*.json"))
    content = left.read_bytes()
    first.close()
    left.write_bytes(content)
    with second.deciding():
        assert not second.others
    assert not left.exists()
    first, _ = neighbourhoods(tmp_path)
    with first.deciding():
        first.publish(uses_gpu("a"))
    with second.deciding():
        assert second.others == (uses_gpu("a"),)
    first.close()
    second.close()


@pytest.mark.parametrize("content", ["{", "[]", '{"worker_id": "w", "incarnation": "i", "tasks": -1}', "\0"])
def test_a_file_that_is_not_a_worker_s_is_left_out(tmp_path: Path, content: str) -> None:
    [worker, _] = neighbourhoods(tmp_path)
    folder = SharedFolder(tmp_path / "host")
    (tmp_path / "host" / "worker-1-2.json").write_text(content)
    lock = folder.lock("worker-1-2.json")
    assert lock is not None
    with worker.deciding() as decides:
        assert decides
        assert not worker.others
    os.close(lock)
    worker.close()


def test_a_file_that_was_removed_is_written_again(tmp_path: Path) -> None:
    first, second = neighbourhoods(tmp_path)
    with first.deciding():
        first.publish(uses_gpu("a"))
    for path in (tmp_path / "host").iterdir():
        path.unlink()
    with first.deciding():
        first.publish(uses_gpu("a"))
    with second.deciding():
        assert second.others == (uses_gpu("a"),)
    first.close()
    second.close()


def test_the_shared_folder_is_open_for_all_users_and_follows_no_links(tmp_path: Path) -> None:
    folder = SharedFolder(tmp_path / "host")
    assert (tmp_path / "host").stat().st_mode & 0o7777 == 0o1777
    lock = folder.lock("GPU-7.lock")
    assert lock is not None and folder.lock("GPU-7.lock") is None
    os.close(lock)
    assert (tmp_path / "host" / "GPU-7.lock").stat().st_mode & 0o777 == 0o666
    (tmp_path / "host" / "link.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link"):
        folder.lock("link.lock")
    (tmp_path / "there").symlink_to(tmp_path / "host")
    with pytest.raises(SharedFolderError, match=r"not a folder.*TRACKSIDE_WORKER_HOST_DIR"):
        SharedFolder(tmp_path / "there")
