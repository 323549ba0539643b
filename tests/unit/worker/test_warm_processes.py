"""Which waiting process a task gets, and which one ends so that another has room."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Sequence

import pytest

from trackside.contracts.fleet.fleet import Device
from trackside.worker.attempts.forkservers.forkserver_connection import ForkserverConnection, TaskProcess
from trackside.worker.catalogue.task_catalogue import TaskType
from trackside.worker.messages.forkserver_messages import SignalProcess
from trackside.worker.messages.process_messages import ProcessFree, ToForkserver
from trackside.worker.placements.ledger import HAS_DEVICES, HAS_PROCESS, IDLE, Claim, Ledger, Stage
from trackside.worker.placements.warm_processes import ProcessKind, WarmProcessPool

MEMORY = ProcessFree(memory_bytes=10, cuda_memory_bytes=2)


class RecordingConnection(ForkserverConnection):
    def __init__(self) -> None:
        self.killed: list[tuple[int, int]] = []

    def send(self, message: ToForkserver, descriptors: Sequence[int] = ()) -> None:
        assert isinstance(message, SignalProcess), f"{message}, {descriptors}"
        self.killed.append((message.number, message.signal))


def kind_of(name: str, cuda_visible_devices: str = "") -> ProcessKind:
    return TaskType(name), cuda_visible_devices


class HostWithPool:
    """Two slots of the CPU and a GPU, with the processes that wait there."""

    def __init__(self) -> None:
        cpus = [Device(device_id=name, kind="cpu", name="", memory_bytes=0) for name in ("cpu-0", "cpu-1")]
        devices = [*cpus, Device(device_id="gpu-0", kind="gpu", name="", memory_bytes=10)]
        self.ledger = Ledger({each.device_id: each for each in devices}, memory_bytes=100)
        self.forkserver = RecordingConnection()
        self.changes = 0
        self.processes: list[TaskProcess] = []
        self.warm = WarmProcessPool(self.ledger, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def add(self, number: int, device: str, kind: str = "a") -> TaskProcess:
        ours, theirs = socket.socketpair()
        theirs.close()
        stdout, stderr = os.pipe()
        process = TaskProcess(
            number, number, ours, stdout, stderr, asyncio.get_running_loop().create_future(), self.forkserver
        )
        self.warm.add(kind_of(kind), process, (device,), MEMORY)
        self.processes.append(process)
        return process


@pytest.fixture
async def host() -> AsyncIterator[HostWithPool]:
    made = HostWithPool()
    yield made
    for process in made.processes:
        process.close()


async def test_a_task_gets_the_process_of_its_type_on_its_device_else_the_oldest(host: HostWithPool) -> None:
    parked = [host.add(1, "cpu-0"), host.add(2, "cpu-1"), host.add(3, "cpu-1", "b")]
    found = [host.warm.matching(kind_of("a"), (device,)) for device in ("cpu-1", "cpu-2", "cpu-0")]
    assert [each.process.number if each else None for each in found] == [2, 1, 1]
    assert host.warm.matching(kind_of("a", "GPU-1"), ("gpu-0",)) is None
    assert found[0] is not None and host.warm.remove_for_task(found[0]) is parked[1]
    assert sorted(host.ledger.allocations) == ["warm-1", "warm-3"]


async def test_what_waits_counts_only_for_who_counts_it(host: HostWithPool) -> None:
    host.add(1, "gpu-0")
    wanted = Claim(("gpu-0",), memory_bytes=95, cuda_memory_bytes=9)
    assert host.ledger.check_host(wanted, HAS_PROCESS) is None
    assert host.ledger.check_devices(wanted, HAS_DEVICES) is None
    assert host.ledger.check_host(wanted, HAS_PROCESS | IDLE) is not None
    assert host.ledger.check_devices(wanted, HAS_DEVICES | IDLE) is not None
    assert host.warm.memory_bytes == 10


async def test_room_is_made_on_the_devices_first_and_else_by_the_oldest(host: HostWithPool) -> None:
    parked = [host.add(number, f"cpu-{number % 2}") for number in (1, 2)]
    assert host.warm.make_room(("cpu-0",), "")
    assert host.forkserver.killed == [(2, signal.SIGKILL)]
    assert host.ledger.allocations["warm-2"].stage is Stage.ENDING
    assert not host.warm.make_room((), "warm-1")
    assert host.warm.make_room((), "")
    assert host.forkserver.killed == [(2, signal.SIGKILL), (1, signal.SIGKILL)]
    assert not host.warm.make_room((), ""), "both are on their way out"
    assert host.warm.matching(kind_of("a"), ("cpu-0",)) is None
    for each in parked:
        each.exited.set_result(-9)
    await asyncio.sleep(0)
    assert (host.ledger.allocations, host.changes) == ({}, 2)


async def test_processes_of_a_type_end_and_one_of_an_old_definition_runs_no_task(host: HostWithPool) -> None:
    host.add(1, "cpu-0")
    host.add(2, "cpu-1", "b")
    assert host.warm.matching((TaskType("a", max_tasks=3), ""), ("cpu-0",)) is None
    host.warm.end_types(["a"])
    assert host.forkserver.killed == [(1, signal.SIGKILL)]
