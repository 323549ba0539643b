"""Workers on one host: what one of them books of a GPU or of the memory is booked for all."""

from typing import Any

import pytest

from tests.unit.scheduler.given import GIB, policy
from tests.unit.scheduler.harness import SchedulerHarness, one_worker
from trackside.contracts.fleet.fleet import NeighbourUse, WorkerLeft
from trackside.contracts.tasks.tasks import AttemptEnd

UUID = ("GPU-7",)


def two_on_a_host(look_ahead: int = 0, **more: Any) -> SchedulerHarness:
    """Returns two workers with the same GPU of 16 GiB and the same 16 GiB of memory."""
    harness = SchedulerHarness(policy(look_ahead=look_ahead))
    for name in ("w1", "w2"):
        harness.join_worker(name, cpus=1, gpus=(16,), memory=16, uuids=UUID, pool="host", **more)
    return harness


def test_t18_a_gpu_and_the_memory_of_two_workers_are_given_away_once_if_they_are_the_same() -> None:
    harness = two_on_a_host()
    assert harness.assign(*"ab", kind="gpu", cuda=14, memory=0.1) == [("a", "w1/gpu-0")]
    assert harness.freed("a") == [("b", "w1/gpu-0")]
    harness = two_on_a_host()
    assert harness.assign(*"ab", kind="cpu", memory=10) == [("a", "w1/cpu-0")]
    assert harness.freed("a") == [("b", "w1/cpu-0")]
    harness = SchedulerHarness()
    for name in ("w1", "w2"):
        harness.join_worker(name, cpus=1, memory=16, pool=name)
    assert harness.assign(*"ab", kind="cpu", memory=10) == [("a", "w1/cpu-0"), ("b", "w2/cpu-0")]


def test_tasks_of_two_workers_share_a_gpu_as_long_as_they_fit() -> None:
    harness = two_on_a_host(max_tasks=1)
    assert harness.assign(*"abc", kind="gpu", cuda=7, memory=0.1) == [("a", "w1/gpu-0"), ("b", "w2/gpu-0")]
    assert harness.cluster.hosts.busy_devices == 1


@pytest.mark.parametrize("first", [True, False])
def test_a_whole_gpu_is_whole_for_all_its_workers(first: bool) -> None:
    harness = two_on_a_host(max_tasks=1)
    harness.submit("a", kind="gpu", cuda=1, memory=0.1, whole_device=first)
    assert harness.assign("b", kind="gpu", cuda=1, memory=0.1, whole_device=not first) == [("a", "w1/gpu-0")]


def test_what_a_neighbour_s_tasks_use_is_counted_once_by_its_bookings() -> None:
    harness = two_on_a_host()
    harness.begin("a", kind="cpu", memory=6)
    harness.heartbeat("w1", peaks={"a": (6, 0)}, available=10)
    harness.heartbeat("w2", available=10)
    assert harness.assign("b", kind="cpu", memory=10) == [("b", "w2/cpu-0")]
    harness = two_on_a_host()
    harness.place("a", kind="gpu", cuda=7, memory=1)
    incarnation = harness.fleet.workers["w1"].incarnation
    use = NeighbourUse(incarnation=incarnation, memory_bytes=GIB, device_bytes={"gpu-0": 7 * GIB})
    harness.heartbeat("w2", available=16, foreign={"gpu-0": 0}, neighbours=(use,))
    assert harness.assign("b", device="w2/gpu-0", cuda=9, memory=15) == [("b", "w2/gpu-0")]


def test_a_neighbour_of_another_log_counts_with_what_it_has() -> None:
    harness = one_worker(cpus=1, gpus=(16,), memory=16, uuids=UUID, pool="host")
    use = NeighbourUse(incarnation="strange", memory_bytes=8 * GIB, device_bytes={"gpu-0": 14 * GIB})
    harness.heartbeat("w1", available=16, foreign={"gpu-0": 0}, neighbours=(use,))
    harness.submit("a", kind="gpu", cuda=14, memory=0.1)
    assert harness.assign("b", kind="cpu", memory=10) == []
    harness.heartbeat("w1", available=16, foreign={"gpu-0": 0})
    assert harness.assignments() == [("a", "w1/gpu-0"), ("b", "w1/cpu-0")]


def test_a_task_of_a_lost_worker_keeps_its_gpu_until_its_end_is_folded() -> None:
    harness = two_on_a_host()
    harness.place("a", kind="gpu", cuda=14, memory=0.1)
    harness.lose("w1")
    harness.join_worker("w3", gpus=(16,), uuids=UUID)
    assert harness.assign("b", kind="gpu", cuda=14, memory=0.1) == []
    harness.end_lost()
    assert len(harness.assignments()) == 1


def test_a_worker_that_joins_again_or_under_a_new_name_still_shares() -> None:
    harness = two_on_a_host()
    assert harness.assign("a", kind="gpu", cuda=14, memory=10) == [("a", "w1/gpu-0")]
    harness.join_worker("w2", cpus=1, gpus=(16,), memory=16, uuids=UUID, pool="host", incarnation="again")
    harness.submit("b", kind="gpu", cuda=14, memory=0.1)
    assert harness.assign("c", kind="cpu", memory=10) == []
    harness.end("a")
    assert len(harness.assignments()) == 2
    harness = two_on_a_host()
    for name in ("w1", "w2"):
        left = WorkerLeft(worker_id=name, incarnation=harness.fleet.workers[name].incarnation)
        harness.fold_fleet(left)
    harness.join_worker("w3", gpus=(16,), memory=16, uuids=UUID, pool="host")
    assert harness.assign("a", kind="gpu", cuda=14, memory=14) == [("a", "w3/gpu-0")]


def test_a_task_that_preempts_or_waits_behind_a_neighbour_s_waits_for_it() -> None:
    harness = two_on_a_host()
    harness.submit("a", device="w1/gpu-0", cuda=14, memory=0.1)
    harness.run_pass(after_s=1)
    harness.accept("a")
    urgent = {"priority": 9, "preempt": True}
    harness.submit("urgent", device="w2/gpu-0", cuda=14, memory=0.1, needs=urgent)
    harness.run_pass(after_s=1)
    assert harness.preempted() == [("a", "urgent")]
    harness.end("a", AttemptEnd.PREEMPTED)
    assert harness.assignments() == [("urgent", "w2/gpu-0")]
    harness = two_on_a_host(look_ahead=1, max_tasks=1)
    harness.begin("a", kind="gpu", cuda=14, memory=0.1)
    harness.place("b", kind="gpu", cuda=14, memory=0.1)
    assert harness.placed_behind() == [("b", "w2/gpu-0")]
    assert harness.cluster.is_waiting("b")
    harness.end("a")
    assert not harness.cluster.is_waiting("b")
