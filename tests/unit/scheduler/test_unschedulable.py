"""Why tasks wait: those that no worker can run say so, of others the gauge of the queue does."""

from tests.unit.scheduler.harness import SchedulerHarness, one_worker
from trackside.scheduler.hosts.hosts import GONE_GRACE_MS
from trackside.scheduler.planning.wait_reasons import fleet_states, wait_reasons


def test_bi_30_what_no_device_can_hold_is_said_at_once_with_the_largest_there_is() -> None:
    harness = one_worker(gpus=(24, 8), memory=32)
    harness.submit("a", kind="gpu", cuda=80)
    harness.submit("b", memory=64)
    harness.place("c", kind="gpu", devices=4)
    assert harness.unschedulable() == {
        "a": "needs 80 GiB on one device, the largest has 24 GiB (w1/gpu-0)",
        "b": "needs 64 GiB on one host, the largest has 32 GiB (w1)",
        "c": "needs 4 GPUs on one worker, w1 has the most: 2",
    }
    assert harness.run_pass() == []


def test_bi_32_a_device_that_is_not_there_is_answered_with_those_that_are() -> None:
    harness = one_worker(cpus=1, gpus=(24,))
    harness.submit("a", device="cuda:1")
    harness.place("b", device="w9/gpu-0")
    assert harness.unschedulable() == {
        "a": "no device gpu-1 is there; devices: w1/gpu-0, w1/cpu-0",
        "b": "no device w9/gpu-0 is there; devices: w1/gpu-0, w1/cpu-0",
    }


def test_a_task_that_no_worker_takes_is_said_and_runs_once_one_does() -> None:
    harness = SchedulerHarness()
    harness.place("a", task_type="faces")
    assert harness.unschedulable() == {
        "a": "no worker takes tasks of type 'faces' from queue 'default': no worker is there"
    }
    harness.join_worker("w1", cpus=1)
    harness.run_pass()
    assert "task types there: digits; queues: default" in harness.unschedulable()["a"]
    harness.join_worker("w2", cpus=1, types=("faces",))
    assert harness.assignments() == [("a", "w2/cpu-0")]


def test_a_worker_that_is_gone_for_a_moment_makes_nobody_unschedulable() -> None:
    harness = one_worker(cpus=1, incarnation="i-1")
    harness.lose("w1")
    assert harness.place("a") == []
    harness.run_pass(after_s=GONE_GRACE_MS / 1000)
    assert list(harness.unschedulable()) == ["a"]


def reasons(harness: SchedulerHarness, disk_low: bool = False) -> dict[str, int]:
    found = wait_reasons(harness.cluster, disk_low)
    return {reason: count for reason, count in found.items() if count}


def test_a_task_waits_for_a_free_or_a_taken_device_or_for_the_disk_or_is_unschedulable() -> None:
    harness = one_worker(cpus=1)
    harness.submit_each("abc")
    assert reasons(harness) == {"device_free": 3}
    assert reasons(harness, disk_low=True) == {"disk_low": 3}
    harness.run_pass()
    assert reasons(harness) == {"device_busy": 2}
    harness.place("d", kind="gpu", cuda=80)
    assert reasons(harness) == {"device_busy": 2, "unschedulable": 1}
    assert fleet_states(harness.fleet) == {"present": 1, "left": 0, "lost": 0}
