"""The order in which waiting tasks are placed, also of one that others have overtaken for too long."""

from tests.unit.scheduler.given import policy
from tests.unit.scheduler.harness import SchedulerHarness, one_worker
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.scheduler.planning.planner import OVERTAKEN_CHECK_MS


def completion_order(harness: SchedulerHarness) -> list[str]:
    order: list[str] = []
    while placed := [name for name, _ in harness.assignments()]:
        order += placed
        for name in placed:
            harness.end(name)
    return order


def test_the_highest_priority_is_first_and_then_who_waits_longest() -> None:
    harness = SchedulerHarness()
    for name, priority in (("a", 2), ("b", 9), ("c", 2), ("d", 9), ("e", 5)):
        harness.submit(name, needs={"priority": priority})
    harness.join_worker(cpus=1)
    assert completion_order(harness) == ["b", "d", "e", "a", "c"]


def test_streams_share_a_queue_fairly() -> None:
    harness = SchedulerHarness()
    harness.submit_each("ABCDEF", stream="big")
    harness.submit_each("ab", stream="small")
    harness.join_worker(cpus=4)
    assert [name for name, _ in harness.assignments()] == ["A", "a", "B", "b"]


def test_waiting_counts_as_priority_so_that_nothing_starves() -> None:
    harness = one_worker(policy(ageing_s=600), cpus=1)
    harness.submit("low", needs={"priority": 0})
    assert harness.assign("first", needs={"priority": 1}) == [("first", "w1/cpu-0")]
    harness.now_ms += 1_300_000
    harness.submit("late", needs={"priority": 1})
    assert harness.freed("first") == [("low", "w1/cpu-0")]


def test_a_queue_has_no_more_tasks_than_its_limit() -> None:
    harness = one_worker(policy(limits={"night": 2}), cpus=4, queues=("night", "default"))
    harness.submit_each("abc", needs={"queue": "night"})
    harness.submit("d")
    assert [name for name, _ in harness.assignments()] == ["a", "d", "b"]
    harness.end("a")
    assert [name for name, _ in harness.assignments()] == ["c"]


def test_t19_a_worker_that_takes_one_task_at_a_time_runs_them_all() -> None:
    for look_ahead in (0, 1):
        harness = one_worker(policy(look_ahead=look_ahead), cpus=2, max_tasks=1)
        harness.submit_each("abcde")
        assert completion_order(harness) == list("abcde")


def test_a_retry_waits_for_its_moment() -> None:
    harness = one_worker(cpus=1)
    retry = {"failed": {"times": 1, "backoff_s": 10, "jitter": 0}}
    harness.place("a", needs={"retry": retry})
    harness.end("a", AttemptEnd.FAILED)
    assert harness.assignments(after_s=9) == []
    assert harness.planner.next_due_ms() == harness.task("a").not_before_ms
    assert harness.assignments(after_s=1) == [("a", "w1/cpu-0")]


def test_a_large_task_that_was_overtaken_for_long_enough_has_its_devices_kept() -> None:
    harness = one_worker(policy(hold_after_s=60), cpus=2)
    harness.place("s0")
    harness.submit("large", devices=2)
    harness.submit("s1")
    assert harness.assign("s2") == [("s1", "w1/cpu-1")]
    due_ms = harness.planner.next_due_ms()
    assert due_ms is not None and due_ms <= harness.now_ms + OVERTAKEN_CHECK_MS
    harness.run_pass(after_s=OVERTAKEN_CHECK_MS / 1000)
    harness.end("s0")
    assert harness.assignments(after_s=30) == [("s2", "w1/cpu-0")]
    harness.submit("s3")
    harness.end("s1")
    assert harness.assignments(after_s=31) == []
    assert harness.freed("s2") == [("large", "w1/cpu-0+cpu-1")]
    assert harness.freed("large") == [("s3", "w1/cpu-0")]
