"""Memory as a reservation: what fits beside whom, and where the numbers come from."""

import pytest

from tests.unit.scheduler.hall import GIB, Hall, policy
from trackside.contracts.tasks import AttemptEnd, TaskStatus
from trackside.scheduler.occupancy import AdmissionLimits
from trackside.scheduler.placement import PlacementRules
from trackside.scheduler.settings import SchedulerSettings


def test_t18_two_trains_are_never_started_on_memory_that_only_one_of_them_can_have() -> None:
    hall = Hall()
    hall.join(gpus=(24,))
    for name in ("a", "b", "c"):
        hall.submit(name, kind="gpu", cuda=10)
    assert hall.placed() == [("a", "w1/gpu-0"), ("b", "w1/gpu-0")]
    assert hall.placed() == []


def test_t18_what_is_seen_to_be_used_counts_where_it_is_more_than_what_was_reserved() -> None:
    hall = Hall()
    hall.join(gpus=(24,))
    hall.submit("a", kind="gpu", cuda=10)
    hall.turn()
    hall.accept("a", TaskStatus.TRAINING)
    hall.beat(peaks={"a": (1, 20)})
    hall.submit("b", kind="gpu", cuda=10)
    assert hall.placed() == []
    hall.end("a")
    assert hall.placed() == [("b", "w1/gpu-0")]


def test_t18_what_other_processes_use_counts_until_they_give_it_back() -> None:
    hall = Hall()
    hall.join(gpus=(24,))
    hall.beat(foreign={"gpu-0": 20})
    hall.submit("a", kind="gpu", cuda=10)
    assert hall.placed() == []
    hall.beat(foreign={"gpu-0": 1})
    assert hall.placed() == [("a", "w1/gpu-0")]


def test_t18_the_host_is_shared_by_all_of_its_devices() -> None:
    hall = Hall()
    hall.join(cpus=2, gpus=(24,), memory=10)
    hall.submit("a", kind="gpu", memory=6)
    hall.submit("b", kind="cpu", memory=6)
    hall.submit("c", kind="cpu", memory=3)
    assert hall.placed() == [("a", "w1/gpu-0"), ("c", "w1/cpu-0")]


def test_t16_a_share_and_an_amount_are_kept_free_once_a_task_is_there() -> None:
    hall = Hall(policy(device_free_share=0.2, device_free_bytes=2 * GIB))
    hall.join(gpus=(10,))
    hall.submit("a", kind="gpu", cuda=5)
    hall.submit("b", kind="gpu", cuda=4)
    hall.submit("c", kind="gpu", cuda=3)
    assert hall.placed() == [("a", "w1/gpu-0"), ("c", "w1/gpu-0")]


def test_t16_an_empty_device_takes_what_it_can_hold_whatever_is_to_be_kept_free() -> None:
    hall = Hall(policy(device_free_share=0.9, host_free_share=0.9))
    hall.join(gpus=(10,), memory=8)
    hall.submit("a", kind="gpu", cuda=10, memory=8)
    assert hall.placed() == [("a", "w1/gpu-0")]


def test_t16_a_pin_restricts_to_the_device_it_names() -> None:
    hall = Hall()
    hall.join("w1", gpus=(8, 8))
    hall.join("w2", gpus=(8, 8))
    for name, device in (("a", "cuda:1"), ("b", "gpu-1"), ("c", "w2/gpu-0"), ("d", "w1/cuda:0")):
        hall.submit(name, device=device, cuda=8)
    placed = [("a", "w1/gpu-1"), ("b", "w2/gpu-1"), ("c", "w2/gpu-0"), ("d", "w1/gpu-0")]
    assert hall.placed() == placed


def test_t15_a_worker_has_as_many_tasks_as_it_takes() -> None:
    hall = Hall()
    hall.join(cpus=8, max_tasks=3)
    for name in "abcde":
        hall.submit(name)
    assert len(hall.placed()) == 3


def test_t15_a_busy_cpu_takes_no_second_task_but_always_a_first() -> None:
    hall = Hall(policy(max_cpu_percent=80))
    hall.join(cpus=4)
    hall.beat(cpu_percent=95)
    hall.submit("a")
    hall.submit("b")
    assert hall.placed() == [("a", "w1/cpu-0")]
    hall.beat(cpu_percent=50)
    assert hall.placed() == [("b", "w1/cpu-1")]


def test_t15_tasks_that_are_loaded_and_do_not_train_are_limited() -> None:
    hall = Hall(policy(max_loading_tasks=2))
    hall.join(cpus=4)
    for name in "abc":
        hall.submit(name)
    assert len(hall.placed()) == 2
    hall.accept("a", TaskStatus.LOADING)
    assert hall.placed() == []
    hall.status("a", TaskStatus.TRAINING)
    assert hall.placed() == [("c", "w1/cpu-2")]


def test_t14_as_many_start_in_one_turn_as_there_is_room_for_in_order_and_each_once() -> None:
    hall = Hall()
    hall.join(cpus=8)
    for number in range(6):
        hall.submit(f"t{number}")
    assert [name for name, _ in hall.placed()] == [f"t{number}" for number in range(6)]
    assert hall.placed(after_s=60) == []


def test_t17_a_task_s_own_word_counts_first_then_what_its_type_used_then_a_default() -> None:
    hall = Hall()
    hall.join(gpus=(24,) * 3, memory=64)
    hall.submit("a", kind="gpu")
    hall.turn()
    reserved = hall.task("a").attempt.reserved
    assert (reserved.memory_bytes, reserved.estimated_by) == (2 * GIB, "default")
    hall.accept("a")
    hall.end("a", peak_memory_bytes=10 * GIB, peak_cuda_memory_bytes=5 * GIB)
    hall.submit("b", kind="gpu")
    hall.submit("c", kind="gpu", memory=1, cuda=1)
    hall.turn()
    learned, own = hall.task("b").attempt.reserved, hall.task("c").attempt.reserved
    assert (learned.memory_bytes, learned.cuda_memory_bytes) == (int(11 * GIB), int(5.5 * GIB))
    assert (own.memory_bytes, own.cuda_memory_bytes, own.estimated_by) == (GIB, GIB, "task")
    assert learned.estimated_by == "learned"


def test_t21_estimates_follow_the_newest_twenty_that_finished() -> None:
    hall = Hall()
    hall.join(cpus=1, memory=64)
    for number, peak in enumerate([30] + [3] * 20):
        hall.submit(f"t{number}")
        hall.turn()
        hall.end(f"t{number}", peak_memory_bytes=peak * GIB)
    hall.submit("last")
    hall.turn()
    assert hall.task("last").attempt.reserved.memory_bytes == int(3 * GIB * 1.1)


def test_a_failed_attempt_teaches_nothing() -> None:
    hall = Hall()
    hall.join(cpus=1, memory=64)
    hall.submit("a")
    hall.turn()
    hall.end("a", AttemptEnd.FAILED, peak_memory_bytes=60 * GIB)
    hall.submit("b")
    hall.turn()
    assert hall.task("b").attempt.reserved.estimated_by == "default"


def test_a_task_that_ran_out_of_memory_gets_more_and_at_most_what_the_largest_device_has() -> None:
    hall = Hall()
    hall.join("w1", gpus=(8,))
    hall.join("w2", gpus=(12,))
    hall.submit("a", kind="gpu", cuda=6)
    seen = []
    for _ in range(3):
        seen += [where for _, where in hall.placed()]
        reserved = hall.task("a").attempt.reserved
        hall.end("a", AttemptEnd.OOM_DEVICE, peak_cuda_memory_bytes=reserved.cuda_memory_bytes)
    assert seen == ["w1/gpu-0", "w2/gpu-0", "w2/gpu-0"]
    assert reserved.cuda_memory_bytes == 12 * GIB
    assert reserved.estimated_by == "raised"


def test_a_small_laptop_never_stalls_on_numbers_that_nobody_gave() -> None:
    hall = Hall()
    hall.join(cpus=2, memory=3)
    hall.beat(available=0.5)
    hall.submit("a")
    hall.submit("b")
    assert [name for name, _ in hall.placed()] == ["a", "b"]
    used = [hall.task(name).attempt.reserved.memory_bytes for name in "ab"]
    assert used == [int(0.5 * GIB), 0]


def test_a_whole_device_is_shared_with_nobody_whoever_came_first() -> None:
    hall = Hall()
    hall.join(gpus=(24, 24))
    hall.submit("a", kind="gpu", cuda=1)
    hall.submit("b", kind="gpu", cuda=1, whole_device=True)
    hall.submit("c", kind="gpu", cuda=1)
    assert hall.placed() == [("a", "w1/gpu-0"), ("b", "w1/gpu-1"), ("c", "w1/gpu-0")]
    hall.submit("d", kind="gpu", cuda=1, whole_device=True)
    assert hall.placed() == []


def test_several_devices_are_of_one_worker_and_of_one_kind() -> None:
    """D32: also all that a host has."""
    hall = Hall()
    hall.join("w1", cpus=1, gpus=(8,))
    hall.join("w2", cpus=3, gpus=(8, 8))
    hall.submit("a", devices=2, cuda=8)
    hall.submit("b", devices=3, kind="cpu")
    assert hall.placed() == [("a", "w2/gpu-0+gpu-1"), ("b", "w2/cpu-0+cpu-1+cpu-2")]


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
    hall = Hall(policy(order=order))
    hall.join(gpus=(10, 24, 16))
    hall.beat(foreign={"gpu-1": 20}, use={"gpu-0": 90, "gpu-1": 5, "gpu-2": 50})
    hall.submit("a", kind="gpu", cuda=1)
    assert hall.placed() == [("a", chosen)]


def test_t17_the_reservation_says_that_the_estimate_is_the_groups() -> None:
    hall = Hall()
    hall.join(gpus=(24, 24), memory=64)
    hall.submit("a", kind="gpu", memory=1, cuda=2, estimated_by="group")
    hall.submit("b", kind="gpu", memory=1, cuda=2)
    hall.turn()
    by = {name: hall.task(name).attempt.reserved.estimated_by for name in ("a", "b")}
    assert by == {"a": "group", "b": "task"}


def test_t17_what_a_group_says_is_no_more_cut_than_what_a_task_says() -> None:
    hall = Hall()
    hall.join(gpus=(24,))
    hall.submit("a", kind="gpu", cuda=80, estimated_by="group")
    hall.turn()
    assert "needs 80 GiB" in hall.said()["a"]


def test_t15_t16_t17_t21_gates_defaults_and_order_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "HOST_FREE_SHARE": "0.2",
        "HOST_FREE_MEMORY": "4GB",
        "DEVICE_FREE_SHARE": "0.1",
        "DEVICE_FREE_MEMORY": "2GB",
        "MAX_CPU_PERCENT": "80",
        "MAX_LOADING_TASKS": "10",
        "DEVICE_ORDER": "-REMAIN-MEM",
        "DEFAULT_MEMORY": "3GB",
        "DEFAULT_CUDA_MEMORY": "1.5GiB",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"TRACKSIDE_SCHEDULER_{name}", value)
    chosen = SchedulerSettings().policy
    assert chosen.placement_rules == PlacementRules(
        AdmissionLimits(0.2, 4 * 10**9, 0.1, 2 * 10**9, 80, 10), "-REMAIN-MEM"
    )
    assert chosen.default_bytes == (3 * 10**9, 3 * 2**29)
