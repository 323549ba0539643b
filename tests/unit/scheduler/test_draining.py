"""Devices that are drained: nothing new is placed on them, and what waits for them is not unschedulable."""

import pytest

from tests.unit.scheduler.harness import SchedulerHarness
from trackside.scheduler.wait_reasons import wait_reasons


def test_a_drained_device_gets_no_new_task_and_keeps_those_that_it_has() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=2)
    harness.submit("a")
    assert harness.assignments() == [("a", "w1/cpu-0")]
    harness.drain("w1", "cpu-0")
    harness.submit("b")
    assert harness.assignments() == [("b", "w1/cpu-1")]
    harness.end("a")
    harness.submit("c")
    assert ("c", "w1/cpu-0") not in harness.assignments()
    assert not harness.preempted()


def test_a_task_waits_for_a_drained_device_and_gets_it_once_it_is_resumed() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=1)
    harness.drain("w1", "cpu-0")
    harness.submit("a")
    assert harness.assignments() == []
    assert harness.unschedulable() == {}
    assert wait_reasons(harness.cluster, disk_low=False)["device_busy"] == 1
    harness.drain("w1")
    assert harness.assignments() == [("a", "w1/cpu-0")]


def test_a_device_is_drained_also_when_its_worker_joins_again() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=1)
    harness.drain("w1", "cpu-0")
    harness.join_worker(cpus=1)
    harness.submit("a")
    assert harness.assignments() == []


def test_a_gpu_of_two_workers_is_drained_for_both() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", gpus=(8,), uuids=("GPU-1",))
    harness.join_worker("w2", gpus=(8,), uuids=("GPU-1",))
    harness.drain("w1", "gpu-0")
    harness.submit("a")
    assert harness.assignments() == []
    harness.drain("w1")
    assert len(harness.assignments()) == 1


@pytest.mark.parametrize("count", [1, 2])
def test_a_task_on_several_devices_is_not_placed_on_a_drained_one(count: int) -> None:
    harness = SchedulerHarness()
    harness.join_worker(gpus=(8, 8))
    harness.drain("w1", "gpu-0")
    harness.submit("a", kind="gpu", devices=count)
    assert harness.assignments() == ([("a", "w1/gpu-1")] if count == 1 else [])
    assert harness.unschedulable() == {}


def test_a_drained_device_is_not_free_and_a_shared_gpu_counts_once() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", cpus=2, gpus=(8,), uuids=("GPU-1",))
    harness.join_worker("w2", gpus=(8,), uuids=("GPU-1",))
    hosts = harness.cluster.hosts
    assert (hosts.busy_devices, hosts.free_devices) == (0, 3)
    harness.submit("a")
    harness.assignments()
    assert (hosts.busy_devices, hosts.free_devices) == (1, 2)
    harness.drain("w1", "cpu-0", "cpu-1", "gpu-0")
    assert (hosts.busy_devices, hosts.free_devices) == (1, 0)
    harness.drain("w1")
    assert (hosts.busy_devices, hosts.free_devices) == (1, 2)
