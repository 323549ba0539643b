"""Who had a device or memory when: by the log's clock, and by the worker's where partitions disagree."""

from typing import Any

import pytest

from tests.unit.verify.random_cluster.workers import GIB
from trackside.contracts.fleet import Device
from trackside.verify.devices import Holding, Uses
from trackside.verify.findings import Findings, Where
from trackside.verify.fleet import Life

GPU = Device(device_id="gpu-0", kind="gpu", name="GPU", memory_bytes=8 * GIB)
SLOT = Device(device_id="cpu-0", kind="cpu", name="slot", memory_bytes=GIB)


def life(**changed: Any) -> Life:
    known: dict[str, Any] = {
        "worker_id": "w1",
        "incarnation": "i1",
        "joined_at": 0,
        "joined_ms": 0,
        "devices": {device.device_id: device for device in (GPU, SLOT)},
        "memory_bytes": 16 * GIB,
        "max_tasks": 2,
    }
    return Life(**{**known, **changed})


class Scene:
    """Placements on one worker, told with the moments of both clocks in ms."""

    def __init__(self) -> None:
        self.findings = Findings()
        self.uses = Uses(self.findings)
        self.number = 0

    def begin(self, task: str, device: str, at: int, said: int | None = None, **more: Any) -> Holding:
        """A placement begins with 3 GiB of the host and `cuda` GiB of its device."""
        known = more.get("life", life())
        holding = Holding(task, "w1", (device,), known, more.get("whole", False))
        self.number += 1
        place = Where("events", 0, self.number, "s")
        moment = (place, at, clock(at if said is None else said))
        self.uses.host(holding, *moment, 3 * GIB)
        self.uses.devices(holding, *moment, more.get("cuda", 0) * GIB)
        return holding

    def end(self, holding: Holding, at: int, said: int | None = None) -> None:
        """A placement ends; `said` -1 is for one that its scheduler ends."""
        self.uses.leave(holding, at, "" if said == -1 else clock(at if said is None else said))

    @property
    def found(self) -> list[str]:
        """What is found in the end."""
        self.uses.settle(float("inf"))
        return [finding.message for finding in self.findings.found]


def clock(ms: int) -> str:
    return f"2026-01-31T12:00:00.{ms:03}Z"


def test_one_after_another_have_a_slot() -> None:
    scene = Scene()
    scene.end(scene.begin("a", "cpu-0", 10), 20)
    scene.begin("b", "cpu-0", 20)
    assert scene.found == []


def test_two_have_a_slot_at_once() -> None:
    scene = Scene()
    first = scene.begin("a", "cpu-0", 10)
    scene.begin("b", "cpu-0", 19)
    scene.end(first, 20)
    assert scene.found == ["device w1/cpu-0 has task b while it has a"]


def test_what_landed_in_another_order_than_its_worker_said_it_is_no_finding() -> None:
    scene = Scene()
    first = scene.begin("a", "cpu-0", 10)
    scene.begin("b", "cpu-0", 19, said=15)
    scene.end(first, 30, said=14)
    assert scene.found == []


def test_the_word_of_a_scheduler_says_nothing_of_the_workers_clock() -> None:
    scene = Scene()
    first = scene.begin("a", "cpu-0", 10)
    scene.begin("b", "cpu-0", 19)
    scene.end(first, 30, said=-1)
    assert scene.found == ["device w1/cpu-0 has task b while it has a"]


def test_what_a_lost_worker_had_is_free_from_its_loss_on() -> None:
    scene = Scene()
    scene.begin("a", "cpu-0", 10, life=life(gone="was lost", gone_at=3, gone_ms=15))
    scene.begin("b", "cpu-0", 20)
    assert scene.found == []


@pytest.mark.parametrize(
    ("second", "found"),
    [
        ({"cuda": 3}, []),
        (
            {"cuda": 4},
            ["device w1/gpu-0 has 8589934592 bytes of memory, and 9663676416 are reserved: task b beside a"],
        ),
        ({"cuda": 1, "whole": True}, ["device w1/gpu-0 has task b while it has a"]),
    ],
)
def test_a_gpu_is_shared_as_far_as_its_memory_reaches(second: dict[str, Any], found: list[str]) -> None:
    scene = Scene()
    scene.begin("a", "gpu-0", 10, cuda=5)
    scene.begin("b", "gpu-0", 20, **second)
    assert scene.found == found


def test_a_host_has_as_many_tasks_as_it_takes() -> None:
    scene = Scene()
    for number, name in enumerate("abc"):
        scene.begin(name, "gpu-0", 10 + number)
    assert scene.found == ["host w1 has 3 tasks, it takes 2"]


def test_the_memory_of_a_host_is_not_given_twice() -> None:
    scene = Scene()
    small = life(memory_bytes=5 * GIB)
    scene.begin("a", "gpu-0", 10, life=small)
    scene.begin("b", "gpu-0", 11, life=small)
    (found,) = scene.found
    assert found.startswith("host w1 has 5368709120 bytes of memory, and 6442450944 are reserved")


def test_what_is_settled_is_judged_once_and_forgotten() -> None:
    scene = Scene()
    first = scene.begin("a", "cpu-0", 10)
    scene.begin("b", "cpu-0", 19)
    scene.uses.settle(20)
    assert len(scene.findings.found) == 1
    scene.end(first, 30)
    scene.uses.settle(40)
    assert len(scene.found) == 1
