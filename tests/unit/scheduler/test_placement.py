"""Which devices a task fits on."""

import pytest

from tests.unit.scheduler.given import GIB, policy
from tests.unit.scheduler.harness import SchedulerHarness
from trackside.contracts.tasks import TaskStatus
from trackside.scheduler.device_state import DeviceState
from trackside.scheduler.occupancy import HostState
from trackside.scheduler.placement import PlacementQuery, scan_free
from trackside.scheduler.requirements import requirements_of


def test_t18_two_trains_are_never_started_on_memory_that_only_one_of_them_can_have() -> None:
    harness = SchedulerHarness()
    harness.join_worker(gpus=(24,))
    for name in ("a", "b", "c"):
        harness.submit(name, kind="gpu", cuda=10)
    assert harness.assignments() == [("a", "w1/gpu-0"), ("b", "w1/gpu-0")]
    assert harness.assignments() == []


def test_t18_what_is_seen_to_be_used_counts_where_it_is_more_than_what_was_reserved() -> None:
    harness = SchedulerHarness()
    harness.join_worker(gpus=(24,))
    harness.submit("a", kind="gpu", cuda=10)
    harness.run_pass()
    harness.accept("a", TaskStatus.TRAINING)
    harness.heartbeat(peaks={"a": (1, 20)})
    harness.submit("b", kind="gpu", cuda=10)
    assert harness.assignments() == []
    harness.end("a")
    assert harness.assignments() == [("b", "w1/gpu-0")]


def test_t18_what_other_processes_use_counts_until_they_give_it_back() -> None:
    harness = SchedulerHarness()
    harness.join_worker(gpus=(24,))
    harness.heartbeat(foreign={"gpu-0": 20})
    harness.submit("a", kind="gpu", cuda=10)
    assert harness.assignments() == []
    harness.heartbeat(foreign={"gpu-0": 1})
    assert harness.assignments() == [("a", "w1/gpu-0")]


def test_t18_the_host_is_shared_by_all_of_its_devices() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=2, gpus=(24,), memory=10)
    harness.submit("a", kind="gpu", memory=6)
    harness.submit("b", kind="cpu", memory=6)
    harness.submit("c", kind="cpu", memory=3)
    assert harness.assignments() == [("a", "w1/gpu-0"), ("c", "w1/cpu-0")]


def test_t16_a_share_and_an_amount_are_kept_free_once_a_task_is_there() -> None:
    harness = SchedulerHarness(policy(device_free_share=0.2, device_free_bytes=2 * GIB))
    harness.join_worker(gpus=(10,))
    harness.submit("a", kind="gpu", cuda=5)
    harness.submit("b", kind="gpu", cuda=4)
    harness.submit("c", kind="gpu", cuda=3)
    assert harness.assignments() == [("a", "w1/gpu-0"), ("c", "w1/gpu-0")]


def test_t16_an_empty_device_takes_what_it_can_hold_whatever_is_to_be_kept_free() -> None:
    harness = SchedulerHarness(policy(device_free_share=0.9, host_free_share=0.9))
    harness.join_worker(gpus=(10,), memory=8)
    harness.submit("a", kind="gpu", cuda=10, memory=8)
    assert harness.assignments() == [("a", "w1/gpu-0")]


def test_t16_a_pin_restricts_to_the_device_it_names() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", gpus=(8, 8))
    harness.join_worker("w2", gpus=(8, 8))
    for name, device in (("a", "cuda:1"), ("b", "gpu-1"), ("c", "w2/gpu-0"), ("d", "w1/cuda:0")):
        harness.submit(name, device=device, cuda=8)
    placed = [("a", "w1/gpu-1"), ("b", "w2/gpu-1"), ("c", "w2/gpu-0"), ("d", "w1/gpu-0")]
    assert harness.assignments() == placed


def test_t15_a_worker_has_as_many_tasks_as_it_takes() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=8, max_tasks=3)
    for name in "abcde":
        harness.submit(name)
    assert len(harness.assignments()) == 3


def test_t15_a_busy_cpu_takes_no_second_task_but_always_a_first() -> None:
    harness = SchedulerHarness(policy(max_cpu_percent=80))
    harness.join_worker(cpus=4)
    harness.heartbeat(cpu_percent=95)
    harness.submit("a")
    harness.submit("b")
    assert harness.assignments() == [("a", "w1/cpu-0")]
    harness.heartbeat(cpu_percent=50)
    assert harness.assignments() == [("b", "w1/cpu-1")]


def test_t15_tasks_that_are_loaded_and_do_not_train_are_limited() -> None:
    harness = SchedulerHarness(policy(max_loading_tasks=2))
    harness.join_worker(cpus=4)
    for name in "abc":
        harness.submit(name)
    assert len(harness.assignments()) == 2
    harness.accept("a", TaskStatus.LOADING)
    assert harness.assignments() == []
    harness.report_status("a", TaskStatus.TRAINING)
    assert harness.assignments() == [("c", "w1/cpu-2")]


def test_t14_as_many_start_in_one_turn_as_there_is_room_for_in_order_and_each_once() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=8)
    for number in range(6):
        harness.submit(f"t{number}")
    assert [name for name, _ in harness.assignments()] == [f"t{number}" for number in range(6)]
    assert harness.assignments(after_s=60) == []


def test_a_small_laptop_never_stalls_on_numbers_that_nobody_gave() -> None:
    harness = SchedulerHarness()
    harness.join_worker(cpus=2, memory=3)
    harness.heartbeat(available=0.5)
    harness.submit("a")
    harness.submit("b")
    assert [name for name, _ in harness.assignments()] == ["a", "b"]
    used = [harness.task(name).attempt.reserved.memory_bytes for name in "ab"]
    assert used == [int(0.5 * GIB), 0]


def test_a_whole_device_is_shared_with_nobody_whoever_came_first() -> None:
    harness = SchedulerHarness()
    harness.join_worker(gpus=(24, 24))
    harness.submit("a", kind="gpu", cuda=1)
    harness.submit("b", kind="gpu", cuda=1, whole_device=True)
    harness.submit("c", kind="gpu", cuda=1)
    assert harness.assignments() == [("a", "w1/gpu-0"), ("b", "w1/gpu-1"), ("c", "w1/gpu-0")]
    harness.submit("d", kind="gpu", cuda=1, whole_device=True)
    assert harness.assignments() == []


def test_several_devices_are_of_one_worker_and_of_one_kind() -> None:
    """D32: also all that a host has."""
    harness = SchedulerHarness()
    harness.join_worker("w1", cpus=1, gpus=(8,))
    harness.join_worker("w2", cpus=3, gpus=(8, 8))
    harness.submit("a", devices=2, cuda=8)
    harness.submit("b", devices=3, kind="cpu")
    assert harness.assignments() == [("a", "w2/gpu-0+gpu-1"), ("b", "w2/cpu-0+cpu-1+cpu-2")]


ORDERS = {
    "FIRST-FIT": "w1/gpu-0",
    "-FIRST-FIT": "w1/gpu-2",
    "TOTAL-MEM": "w1/gpu-1",
    "-TOTAL-MEM": "w1/gpu-0",
    "REMAIN-MEM": "w1/gpu-2",
    "-REMAIN-MEM": "w1/gpu-1",
    "UTILISATION": "w1/gpu-1",
    "-UTILISATION": "w1/gpu-0",
}


@pytest.mark.parametrize(("order", "chosen"), ORDERS.items())
def test_t21_devices_are_tried_in_the_order_that_was_chosen(order: str, chosen: str) -> None:
    harness = SchedulerHarness(policy(order=order))
    harness.join_worker(gpus=(10, 24, 16))
    harness.heartbeat(foreign={"gpu-1": 20}, use={"gpu-0": 90, "gpu-1": 5, "gpu-2": 50})
    harness.submit("a", kind="gpu", cuda=1)
    assert harness.assignments() == [("a", chosen)]


def test_the_first_device_that_fits_is_found_without_a_look_at_the_rest() -> None:
    harness = SchedulerHarness()
    for number in range(3):
        harness.join_worker(f"w{number}", cpus=2)
    requirements = requirements_of(harness.submit("a"))
    demand, scanned = harness.cluster.demand(harness.cluster.waiting.classes[requirements]), []

    def is_usable(device: DeviceState | HostState) -> bool:
        scanned.append(device)
        return True

    query = PlacementQuery(requirements, demand, harness.cluster.policy.placement_rules, is_usable)
    scan = scan_free(harness.cluster.hosts.open[::-1], query)
    found = scan.best()
    assert found is not None
    assert (found.host.worker.worker_id, found.device_ids) == ("w0", ["cpu-0"])
    assert scanned == list(found.host.devices.values())
    found.host.book(found.booking("b", requirements))
    after = scan.best()
    assert after is not None
    assert (after.host.worker.worker_id, after.device_ids) == ("w0", ["cpu-1"])
