"""Several workers on one host: a GPU or memory that one has given to a task is not given away by another."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from tests.integration.worker.conftest import NUMBERS
from tests.integration.worker.given import SHARES, on_gpu, task_of
from tests.integration.worker.harness import Gate, WorkerHarness, memory_log, of, running, scripted_settings
from tests.integration.worker.test_warm_processes import SCRIPT, WARM
from tests.nvml.standin import GIB, FakeNvml
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.tasks.tasks import AttemptEnd, Reservation, TaskAccepted, TaskRefused

pytestmark = SHARES


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


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(gpus: FakeNvml, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Host]:
    with pytest.MonkeyPatch.context() as patched:
        gpus.load(patched)
        async with two_workers(tmp_path_factory.mktemp("shared")) as made:
            yield made


@pytest_asyncio.fixture(loop_scope="module")
async def host(shared: Host) -> Host:
    names = f"n{next(NUMBERS)}-"
    found = Host(await shared.first.for_a_test(names), await shared.second.for_a_test(names), shared.folder)
    for each in (found.first, found.second):  # they have seen that the tasks of the test before are gone
        await each.heartbeat(
            lambda beat: not any(other.device_bytes or other.memory_bytes for other in beat.neighbours)
        )
    return found


async def test_t18_a_gpu_that_another_worker_has_given_away_is_refused_with_its_name(
    host: Host, gate: Gate
) -> None:
    await on_gpu(host.first, "a", 14, gate)
    incarnation = (await host.first.joined()).incarnation
    await host.second.heartbeat(lambda beat: any(each.device_bytes for each in beat.neighbours))
    await on_gpu(host.second, "b", 14)
    refused = await host.second.event(TaskRefused, "b")
    assert (refused.code, refused.message) == (
        "out_of_memory",
        "needs 14 GiB of gpu-0, which has 2 GiB left: "
        f"task {host.first.own('a')} of worker w1, on the same host, has 14 GiB",
    )
    beat = await host.second.heartbeat(lambda beat: bool(beat.neighbours))
    assert [(each.incarnation, each.device_bytes) for each in beat.neighbours] == [
        (incarnation, {"gpu-0": 14 * GIB})
    ]
    await gate.pass_one()
    await host.first.end("a")


async def test_t18_a_task_waits_until_the_gpu_is_free_on_the_other_worker(host: Host, gate: Gate) -> None:
    with capture_logs() as logged:
        await on_gpu(host.first, "a", 14, gate)
        await on_gpu(host.second, "b", 14, wait=True)
        await host.second.is_held("b")
        assert of(await host.second.events_so_far("b"), TaskAccepted) == []
        await gate.pass_one()
        first, second = await host.first.end("a"), await host.second.end("b")
    assert (first.end, second.end) == (AttemptEnd.FINISHED, AttemptEnd.FINISHED)
    reasons = [line.get("reason", "") for line in logged]
    assert any(
        f"task {host.first.own('a')} of worker w1, on the same host, has 14 GiB" in reason
        for reason in reasons
    )


async def test_two_workers_that_begin_at_once_do_not_both_get_the_gpu(host: Host, gates: list[Gate]) -> None:
    await asyncio.gather(host.first.joined(), host.second.joined())
    await asyncio.gather(
        on_gpu(host.first, "a", 14, gates[0], wait=True), on_gpu(host.second, "b", 14, gates[1], wait=True)
    )
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


async def test_t18_the_memory_of_the_host_is_given_away_once(host: Host, gate: Gate) -> None:
    joined = await host.first.joined()
    assert joined.memory_pool and joined.memory_pool == (await host.second.joined()).memory_pool
    much = Reservation(memory_bytes=joined.memory_bytes * 6 // 10)
    await on_gpu(host.first, "a", 0, gate, reserved=much)
    await on_gpu(host.second, "b", 0, device="gpu-1", reserved=much, wait=True)
    await host.second.is_held("b")
    assert of(await host.second.events_so_far("b"), TaskAccepted) == []
    await gate.pass_one()
    assert (await host.second.end("b")).end is AttemptEnd.FINISHED


async def test_what_tasks_of_a_neighbour_use_is_not_foreign(host: Host, gate: Gate, gpus: FakeNvml) -> None:
    await on_gpu(host.first, "a", 6, gate, requested={"tell_pid": True})
    pid = await host.first.pid("a")
    gpus.set(0, processes=[(pid, 5 * GIB), (1, GIB)])
    await host.second.heartbeat(
        lambda beat: any((each.used_bytes, each.foreign_bytes) == (6 * GIB, GIB) for each in beat.devices),
    )
    await gate.pass_one()
    await host.first.end("a")
    gpus.set(0, processes=[])
    await host.first.sees_idle_gpus()
    await host.second.sees_idle_gpus()


async def test_a_warm_process_ends_when_a_task_of_another_worker_needs_its_gpu(
    tmp_path: Path, shared: Host
) -> None:
    """These are two more workers, which have the GPUs of the others."""
    async with two_workers(tmp_path, catalogue=task_of(tmp_path, SCRIPT, WARM)) as host:
        await host.first.ended("a", device="gpu-0", task_type="a")
        ended = await host.second.ended("b", device="gpu-0", task_type="a", wait=True, whole_device=True)
        assert ended.end is AttemptEnd.FINISHED
