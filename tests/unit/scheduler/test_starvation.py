"""A place is reserved for a task that others have overtaken for too long."""

from tests.unit.scheduler.given import policy
from tests.unit.scheduler.harness import SchedulerHarness
from trackside.scheduler.planner import OVERTAKEN_CHECK_MS


def test_a_large_task_that_was_overtaken_for_long_enough_has_its_devices_kept() -> None:
    harness = SchedulerHarness(policy(hold_after_s=60))
    harness.join_worker(cpus=2)
    harness.submit("s0")
    harness.run_pass()
    harness.submit("large", devices=2)
    harness.submit("s1")
    harness.submit("s2")
    assert harness.assignments() == [("s1", "w1/cpu-1")]
    due_ms = harness.planner.next_due_ms()
    assert due_ms is not None and due_ms <= harness.now_ms + OVERTAKEN_CHECK_MS
    harness.run_pass(after_s=OVERTAKEN_CHECK_MS / 1000)
    harness.end("s0")
    assert harness.assignments(after_s=30) == [("s2", "w1/cpu-0")]
    harness.submit("s3")
    harness.end("s1")
    assert harness.assignments(after_s=31) == []
    harness.end("s2")
    assert harness.assignments() == [("large", "w1/cpu-0+cpu-1")]
    harness.end("large")
    assert harness.assignments() == [("s3", "w1/cpu-0")]
