"""Failed and refusing devices."""

from tests.unit.scheduler.given import GIB
from tests.unit.scheduler.harness import SchedulerHarness
from trackside.contracts.fleet import CatalogueChanged, DeviceUnhealthy
from trackside.scheduler.requirements import requirements_of


def test_fm_19_a_device_that_failed_gets_nothing_more() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", gpus=(8, 8), incarnation="i-1")
    failed = DeviceUnhealthy(worker_id="w1", incarnation="i-1", device_id="gpu-0", reason="fell off the bus")
    harness.fold_fleet(failed)
    harness.submit("a", kind="gpu", cuda=8)
    harness.submit("b", device="gpu-0")
    assert harness.assignments() == [("a", "w1/gpu-1")]
    assert harness.task("b").unschedulable == (
        "no device gpu-0 is there; devices: w1/gpu-0 (failed), w1/gpu-1"
    )


def test_what_a_refusal_for_memory_says_keeps_only_such_tasks_from_the_device() -> None:
    harness = SchedulerHarness()
    harness.join_worker(gpus=(24,))
    task = harness.submit("a", kind="gpu", cuda=20)
    harness.run_pass()
    harness.refuse("a")
    harness.cluster.hosts.avoid("w1", ["gpu-0"], requirements_of(task), harness.now_ms + 1_000)
    harness.submit("b", kind="gpu", cuda=4)
    assert harness.assignments() == [("b", "w1/gpu-0")]
    assert harness.assignments(after_s=1) == [("a", "w1/gpu-0")]
    assert harness.task("a").attempt.reserved.cuda_memory_bytes == 20 * GIB


def test_a_task_of_a_type_that_is_added_to_a_catalogue_is_placed_next_to_those_that_run() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", gpus=(24,), incarnation="i-1", types=("digits",))
    harness.submit("a", kind="gpu", cuda=20)
    harness.run_pass()
    harness.submit("b", kind="gpu", cuda=4, task_type="fit")
    harness.submit("c", kind="gpu", cuda=8, task_type="fit")
    assert harness.assignments() == []
    known = ["digits", "fit"]
    harness.fold_fleet(CatalogueChanged(worker_id="w1", incarnation="i-1", task_types=known))
    assert harness.assignments() == [("b", "w1/gpu-0")], "what runs there is still booked"
