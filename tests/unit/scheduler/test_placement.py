"""Which devices a task fits on, with its memory and its inputs; failed, refusing and drained devices."""

import pytest

from tests.commands import INPUT
from tests.unit.scheduler.given import GIB, policy
from tests.unit.scheduler.harness import SchedulerHarness, one_worker
from trackside.contracts.fleet.fleet import CatalogueChanged, DeviceUnhealthy
from trackside.contracts.tasks.device_commands import RunTask
from trackside.contracts.tasks.tasks import TaskStatus
from trackside.scheduler.hosts.device_state import DeviceState
from trackside.scheduler.hosts.occupancy import HostState
from trackside.scheduler.hosts.requirements import requirements_of
from trackside.scheduler.placing.placement import PlacementQuery, scan_free
from trackside.scheduler.planning.wait_reasons import wait_reasons


def test_t18_two_trains_are_never_started_on_memory_that_only_one_of_them_can_have() -> None:
    harness = one_worker(gpus=(24,))
    assert harness.assign(*"abc", kind="gpu", cuda=10) == [("a", "w1/gpu-0"), ("b", "w1/gpu-0")]
    assert harness.assignments() == []


def test_t18_what_is_seen_to_be_used_by_tasks_or_others_counts_until_it_is_given_back() -> None:
    harness = one_worker(gpus=(24,))
    harness.begin("a", kind="gpu", cuda=10)
    harness.heartbeat(peaks={"a": (1, 20)})
    assert harness.assign("b", kind="gpu", cuda=10) == []
    assert harness.freed("a") == [("b", "w1/gpu-0")]
    harness = one_worker(gpus=(24,))
    harness.heartbeat(foreign={"gpu-0": 20})
    assert harness.assign("a", kind="gpu", cuda=10) == []
    harness.heartbeat(foreign={"gpu-0": 1})
    assert harness.assignments() == [("a", "w1/gpu-0")]


def test_t18_the_host_is_shared_by_all_of_its_devices() -> None:
    harness = one_worker(cpus=2, gpus=(24,), memory=10)
    harness.submit("a", kind="gpu", memory=6)
    harness.submit("b", kind="cpu", memory=6)
    assert harness.assign("c", kind="cpu", memory=3) == [("a", "w1/gpu-0"), ("c", "w1/cpu-0")]


def test_t16_a_share_and_an_amount_are_kept_free_once_a_task_is_there() -> None:
    harness = one_worker(policy(device_free_share=0.2, device_free_bytes=2 * GIB), gpus=(10,))
    harness.submit("a", kind="gpu", cuda=5)
    harness.submit("b", kind="gpu", cuda=4)
    assert harness.assign("c", kind="gpu", cuda=3) == [("a", "w1/gpu-0"), ("c", "w1/gpu-0")]


def test_t16_an_empty_device_takes_what_it_can_hold_whatever_is_to_be_kept_free_or_was_given() -> None:
    harness = one_worker(policy(device_free_share=0.9, host_free_share=0.9), gpus=(10,), memory=8)
    assert harness.assign("a", kind="gpu", cuda=10, memory=8) == [("a", "w1/gpu-0")]
    harness = one_worker(cpus=2, memory=3)
    harness.heartbeat(available=0.5)
    harness.submit_each("ab")
    assert [name for name, _ in harness.assignments()] == ["a", "b"]
    assert [harness.reserved(name).memory_bytes for name in "ab"] == [int(0.5 * GIB), 0]


def test_t16_a_pin_restricts_to_the_device_it_names() -> None:
    harness = one_worker(gpus=(8, 8))
    harness.join_worker("w2", gpus=(8, 8))
    for name, device in (("a", "cuda:1"), ("b", "gpu-1"), ("c", "w2/gpu-0"), ("d", "w1/cuda:0")):
        harness.submit(name, device=device, cuda=8)
    placed = [("a", "w1/gpu-1"), ("b", "w2/gpu-1"), ("c", "w2/gpu-0"), ("d", "w1/gpu-0")]
    assert harness.assignments() == placed


def test_t15_a_worker_has_as_many_tasks_as_it_takes_and_a_busy_cpu_always_a_first() -> None:
    harness = one_worker(cpus=8, max_tasks=3)
    assert len(harness.assign(*"abcde")) == 3
    harness = one_worker(policy(max_cpu_percent=80), cpus=4)
    harness.heartbeat(cpu_percent=95)
    assert harness.assign(*"ab") == [("a", "w1/cpu-0")]
    harness.heartbeat(cpu_percent=50)
    assert harness.assignments() == [("b", "w1/cpu-1")]


def test_t15_tasks_that_are_loaded_and_do_not_train_are_limited() -> None:
    harness = one_worker(policy(max_loading_tasks=2), cpus=4)
    assert len(harness.assign(*"abc")) == 2
    harness.accept("a", TaskStatus.LOADING)
    assert harness.assignments() == []
    harness.report_status("a", TaskStatus.TRAINING)
    assert harness.assignments() == [("c", "w1/cpu-2")]


def test_t14_as_many_start_in_one_turn_as_there_is_room_for_in_order_and_each_once() -> None:
    harness = one_worker(cpus=8)
    harness.submit_each("abcdef")
    assert [name for name, _ in harness.assignments()] == list("abcdef")
    assert harness.assignments(after_s=60) == []


def test_a_whole_device_is_shared_with_nobody_whoever_came_first() -> None:
    harness = one_worker(gpus=(24, 24))
    harness.submit("a", kind="gpu", cuda=1)
    harness.submit("b", kind="gpu", cuda=1, whole_device=True)
    placed = [("a", "w1/gpu-0"), ("b", "w1/gpu-1"), ("c", "w1/gpu-0")]
    assert harness.assign("c", kind="gpu", cuda=1) == placed
    assert harness.assign("d", kind="gpu", cuda=1, whole_device=True) == []


def test_several_devices_are_of_one_worker_and_of_one_kind() -> None:
    """D32: also all that a host has."""
    harness = one_worker(cpus=1, gpus=(8,))
    harness.join_worker("w2", cpus=3, gpus=(8, 8))
    harness.submit("a", devices=2, cuda=8)
    placed = [("a", "w2/gpu-0+gpu-1"), ("b", "w2/cpu-0+cpu-1+cpu-2")]
    assert harness.assign("b", devices=3, kind="cpu") == placed


ORDERS = [
    ("FIRST-FIT", 0), ("-FIRST-FIT", 2), ("TOTAL-MEM", 1), ("-TOTAL-MEM", 0),
    ("REMAIN-MEM", 2), ("-REMAIN-MEM", 1), ("UTILISATION", 1), ("-UTILISATION", 0),
]  # fmt: skip


@pytest.mark.parametrize(("order", "chosen"), ORDERS)
def test_t21_devices_are_tried_in_the_order_that_was_chosen(order: str, chosen: int) -> None:
    harness = one_worker(policy(order=order), gpus=(10, 24, 16))
    harness.heartbeat(foreign={"gpu-1": 20}, use={"gpu-0": 90, "gpu-1": 5, "gpu-2": 50})
    assert harness.assign("a", kind="gpu", cuda=1) == [("a", f"w1/gpu-{chosen}")]


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
    assert found is not None and (found.host.worker.worker_id, found.device_ids) == ("w0", ["cpu-0"])
    assert scanned == list(found.host.devices.values())
    found.host.book(found.booking("b", requirements))
    after = scan.best()
    assert after is not None and (after.host.worker.worker_id, after.device_ids) == ("w0", ["cpu-1"])


def test_fm_19_a_device_that_failed_gets_nothing_and_one_that_refused_for_memory_no_such_tasks() -> None:
    harness = one_worker(gpus=(8, 8), incarnation="i-1")
    failed = DeviceUnhealthy(worker_id="w1", incarnation="i-1", device_id="gpu-0", reason="fell off the bus")
    harness.fold_fleet(failed)
    harness.submit("a", kind="gpu", cuda=8)
    assert harness.assign("b", device="gpu-0") == [("a", "w1/gpu-1")]
    said = "no device gpu-0 is there; devices: w1/gpu-0 (failed), w1/gpu-1"
    assert harness.task("b").unschedulable == said
    harness = one_worker(gpus=(24,))
    task = harness.submit("a", kind="gpu", cuda=20)
    harness.run_pass()
    harness.refuse("a")
    harness.cluster.hosts.avoid("w1", ["gpu-0"], requirements_of(task), harness.now_ms + 1_000)
    assert harness.assign("b", kind="gpu", cuda=4) == [("b", "w1/gpu-0")]
    assert harness.assignments(after_s=1) == [("a", "w1/gpu-0")]
    assert harness.reserved("a").cuda_memory_bytes == 20 * GIB


def test_a_task_of_a_type_that_is_added_to_a_catalogue_is_placed_next_to_those_that_run() -> None:
    harness = one_worker(gpus=(24,), incarnation="i-1", types=("digits",))
    harness.place("a", kind="gpu", cuda=20)
    harness.submit("b", kind="gpu", cuda=4, task_type="fit")
    assert harness.assign("c", kind="gpu", cuda=8, task_type="fit") == []
    known = ["digits", "fit"]
    harness.fold_fleet(CatalogueChanged(worker_id="w1", incarnation="i-1", task_types=known))
    assert harness.assignments() == [("b", "w1/gpu-0")], "what runs there is still booked"


OTHER = INPUT.model_copy(update={"credential": "models"})


def test_a_task_runs_where_the_host_has_the_credentials_of_its_inputs_and_its_worker_is_told_them() -> None:
    harness = one_worker(cpus=1, credentials=("datasets",))
    assert harness.assign("a", inputs={"digits": INPUT}) == [("a", "w1/cpu-0")]
    (pending,) = harness.pending()
    command = pending.build()
    assert isinstance(command, RunTask) and command.inputs == {"digits": INPUT}
    harness = one_worker(cpus=4)
    harness.join_worker("w2", cpus=1, credentials=("datasets", "models"))
    harness.submit("a", inputs={"digits": INPUT, "model": OTHER})
    harness.submit("b", inputs={"plain": INPUT.model_copy(update={"credential": None})})
    assert sorted(harness.assignments()) == [("a", "w2/cpu-0"), ("b", "w1/cpu-0")]


def test_a_task_whose_credential_no_host_has_waits_and_says_which_one_until_a_worker_has_it() -> None:
    harness = one_worker(cpus=1, credentials=("datasets",))
    assert harness.assign("a", inputs={"digits": INPUT, "model": OTHER}) == []
    message = harness.unschedulable()["a"]
    assert "need the credentials datasets, models" in message and "TRACKSIDE_CREDENTIALS" in message
    assert "no worker's host has the credential 'models'" in message
    harness.join_worker("w2", cpus=1, credentials=("datasets", "models"))
    assert harness.assignments() == [("a", "w2/cpu-0")]


def test_a_drained_device_keeps_its_tasks_and_gets_no_new_one_also_when_its_worker_joins_again() -> None:
    harness = one_worker(cpus=2)
    assert harness.assign("a") == [("a", "w1/cpu-0")]
    harness.drain("w1", "cpu-0")
    assert harness.assign("b") == [("b", "w1/cpu-1")]
    harness.end("a")
    harness.submit("c")
    assert ("c", "w1/cpu-0") not in harness.assignments()
    assert not harness.preempted()
    harness = one_worker(cpus=1)
    harness.drain("w1", "cpu-0")
    harness.join_worker(cpus=1)
    assert harness.assign("a") == []


def test_a_task_waits_for_a_drained_device_and_gets_it_once_it_is_resumed() -> None:
    harness = one_worker(cpus=1)
    harness.drain("w1", "cpu-0")
    assert harness.assign("a") == []
    assert harness.unschedulable() == {}
    assert wait_reasons(harness.cluster, disk_low=False)["device_busy"] == 1
    harness.drain("w1")
    assert harness.assignments() == [("a", "w1/cpu-0")]


def test_a_gpu_of_two_workers_is_drained_for_both_and_counts_once() -> None:
    harness = one_worker(gpus=(8,), uuids=("GPU-1",))
    harness.join_worker("w2", gpus=(8,), uuids=("GPU-1",))
    harness.drain("w1", "gpu-0")
    assert harness.assign("a") == []
    harness.drain("w1")
    assert len(harness.assignments()) == 1
    harness = one_worker(cpus=2, gpus=(8,), uuids=("GPU-1",))
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


def test_a_task_on_several_devices_is_not_placed_on_a_drained_one() -> None:
    harness = one_worker(gpus=(8, 8))
    harness.drain("w1", "gpu-0")
    assert harness.assign("a", kind="gpu", devices=2) == []
    assert harness.unschedulable() == {}
