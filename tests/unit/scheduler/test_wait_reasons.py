"""Why tasks wait, as the gauge of the queue says it."""

from tests.unit.scheduler.harness import SchedulerHarness
from trackside.scheduler.wait_reasons import fleet_states, wait_reasons


def reasons(harness: SchedulerHarness, disk_low: bool = False) -> dict[str, int]:
    found = wait_reasons(harness.cluster, disk_low)
    return {reason: count for reason, count in found.items() if count}


def test_a_task_that_fits_a_taken_device_waits_for_that_and_one_that_fits_a_free_device_is_told_apart() -> (
    None
):
    harness = SchedulerHarness()
    harness.join_worker("w1", cpus=1)
    for name in ("a", "b", "c"):
        harness.submit(name)
    assert reasons(harness) == {"device_free": 3}
    harness.run_pass()
    assert reasons(harness) == {"device_busy": 2}


def test_a_task_that_no_worker_can_run_is_unschedulable_whatever_is_free() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", cpus=1)
    harness.submit("a", kind="gpu", cuda=80)
    harness.run_pass()
    assert reasons(harness) == {"unschedulable": 1}


def test_tasks_wait_for_the_disk_while_it_is_low() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", cpus=1)
    harness.submit("a")
    assert reasons(harness, disk_low=True) == {"disk_low": 1}


def test_workers_are_counted_by_how_they_went() -> None:
    harness = SchedulerHarness()
    harness.join_worker("w1", cpus=1)
    assert fleet_states(harness.fleet) == {"present": 1, "left": 0, "lost": 0}
