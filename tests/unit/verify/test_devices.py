"""Who had a device or memory when: by the log's clock, and by the worker's where partitions disagree."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.verify.random_cluster.workers import GIB
from trackside.contracts.fleet import Device
from trackside.domain.findings import Findings, RecordPosition
from trackside.verify.checks.devices import PlacementUse, ResourceChecks
from trackside.verify.checks.incarnations import IncarnationHistory

GPU = Device(device_id="gpu-0", kind="gpu", name="GPU", memory_bytes=8 * GIB)
SLOT = Device(device_id="cpu-0", kind="cpu", name="slot", memory_bytes=GIB)


def incarnation(**changed: Any) -> IncarnationHistory:
    known: dict[str, Any] = {
        "worker_id": "w1",
        "incarnation": "i1",
        "joined_offset": 0,
        "joined_ms": 0,
        "devices": {device.device_id: device for device in (GPU, SLOT)},
        "memory_bytes": 16 * GIB,
        "max_tasks": 2,
    }
    return IncarnationHistory(**{**known, **changed})


class Placements:
    """Placements on one worker, with the times of both clocks in ms."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.resources = ResourceChecks(self.findings)
        self.number = 0

    def begin(
        self, task: str, device: str, at: int, worker_ms: int | None = None, **more: Any
    ) -> PlacementUse:
        """A placement begins with 3 GiB of the host and `cuda` GiB of its device."""
        known = more.get("incarnation", incarnation())
        placement = PlacementUse(task, known.worker_id, (device,), known, more.get("whole", False))
        self.number += 1
        place = RecordPosition("events", 0, self.number, "s")
        times = (place, at, clock(at if worker_ms is None else worker_ms))
        self.resources.start_host(placement, *times, 3 * GIB)
        self.resources.start_devices(placement, *times, more.get("cuda", 0) * GIB)
        return placement

    def end(self, placement: PlacementUse, at: int, worker_ms: int | None = None) -> None:
        """A placement ends; `worker_ms` -1 is for one that its scheduler ends."""
        self.resources.end_placement(
            placement, at, "" if worker_ms == -1 else clock(at if worker_ms is None else worker_ms)
        )

    @property
    def found(self) -> list[str]:
        """What is found in the end."""
        self.resources.check_until(float("inf"))
        return [finding.message for finding in self.findings.found]


def clock(ms: int) -> str:
    return f"2026-01-31T12:00:00.{ms:03}Z"


def test_one_after_another_have_a_slot() -> None:
    scene = Placements()
    scene.end(scene.begin("a", "cpu-0", 10), 20)
    scene.begin("b", "cpu-0", 20)
    assert scene.found == []


def test_two_have_a_slot_at_once() -> None:
    scene = Placements()
    first = scene.begin("a", "cpu-0", 10)
    scene.begin("b", "cpu-0", 19)
    scene.end(first, 20)
    assert scene.found == ["device w1/cpu-0 has task b while it has a"]


def test_what_landed_in_another_order_than_its_worker_said_it_is_no_finding() -> None:
    scene = Placements()
    first = scene.begin("a", "cpu-0", 10)
    scene.begin("b", "cpu-0", 19, worker_ms=15)
    scene.end(first, 30, worker_ms=14)
    assert scene.found == []


def test_the_word_of_a_scheduler_says_nothing_of_the_workers_clock() -> None:
    scene = Placements()
    first = scene.begin("a", "cpu-0", 10)
    scene.begin("b", "cpu-0", 19)
    scene.end(first, 30, worker_ms=-1)
    assert scene.found == ["device w1/cpu-0 has task b while it has a"]


def test_what_a_lost_worker_had_is_free_from_its_loss_on() -> None:
    scene = Placements()
    scene.begin("a", "cpu-0", 10, incarnation=incarnation(end="was lost", end_offset=3, end_ms=15))
    scene.begin("b", "cpu-0", 20)
    assert scene.found == []


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ({"cuda": 3}, []),
        (
            {"cuda": 4},
            ["device w1/gpu-0 has 8589934592 bytes of memory, and 9663676416 are reserved: task b next to a"],
        ),
        ({"cuda": 1, "whole": True}, ["device w1/gpu-0 has task b while it has a"]),
    ],
)
def test_a_gpu_is_shared_as_far_as_its_memory_reaches(second: dict[str, Any], found: list[str]) -> None:
    scene = Placements()
    scene.begin("a", "gpu-0", 10, cuda=5)
    scene.begin("b", "gpu-0", 20, **second)
    assert scene.found == found


def test_a_host_has_as_many_tasks_as_it_takes() -> None:
    scene = Placements()
    for number, name in enumerate("abc"):
        scene.begin(name, "gpu-0", 10 + number)
    assert scene.found == ["host w1 has 3 tasks, it takes 2"]


def test_the_memory_of_a_host_is_not_given_twice() -> None:
    scene = Placements()
    small = incarnation(memory_bytes=5 * GIB)
    scene.begin("a", "gpu-0", 10, incarnation=small)
    scene.begin("b", "gpu-0", 11, incarnation=small)
    (found,) = scene.found
    assert found.startswith("host w1 has 5368709120 bytes of memory, and 6442450944 are reserved")


def test_what_is_settled_is_judged_once_and_forgotten() -> None:
    scene = Placements()
    first = scene.begin("a", "cpu-0", 10)
    scene.begin("b", "cpu-0", 19)
    scene.resources.check_until(20)
    assert len(scene.findings.found) == 1
    scene.end(first, 30)
    scene.resources.check_until(40)
    assert len(scene.found) == 1


def two_workers(uuid: str, pool: str) -> list[IncarnationHistory]:
    """Returns two workers with a GPU of this uuid and memory of this pool."""
    devices = {device.device_id: device for device in (GPU.model_copy(update={"uuid": uuid}), SLOT)}
    return [
        incarnation(worker_id=name, incarnation=f"{name}-1", devices=devices, memory_pool=pool)
        for name in ("w1", "w2")
    ]


def test_two_workers_give_the_same_gpu_away_twice() -> None:
    scene = Placements()
    for task, worker in zip("ab", two_workers("GPU-7", "pool"), strict=True):
        scene.begin(task, "gpu-0", 10, cuda=5, incarnation=worker)
    assert scene.found == [
        f"device GPU-7 has {8 * GIB} bytes of memory, and {10 * GIB} are reserved: task b next to a"
    ]


def test_two_workers_give_the_same_memory_away_twice() -> None:
    scene = Placements()
    first, second = two_workers("", "pool")
    for number, worker in enumerate((first, first, second, second)):
        scene.begin(f"t{number}", "gpu-0", 10, incarnation=worker)
    assert scene.found == []
    for worker in two_workers("", "pool"):
        scene.begin(worker.worker_id, "gpu-0", 20, incarnation=replace(worker, max_tasks=0))
    assert scene.found == [
        f"memory pool pool has {16 * GIB} bytes of memory, and {18 * GIB} are reserved: "
        "task w2 next to t0, t1, t2, t3, w1"
    ]


def test_two_workers_with_memory_and_devices_of_their_own_do_not_share_them() -> None:
    scene = Placements()
    for task, worker in zip("ab", two_workers("", ""), strict=True):
        scene.begin(task, "gpu-0", 10, cuda=5, incarnation=worker)
    assert scene.found == []
