"""Preemption: only for a higher priority on request, only if it makes room, and never twice."""

from tests.unit.scheduler.given import policy
from tests.unit.scheduler.harness import SchedulerHarness, one_worker
from trackside.contracts.tasks.device_commands import StopTask
from trackside.contracts.tasks.tasks import AttemptEnd, TaskStopRequested

URGENT = {"priority": 9, "preempt": True}


def three_slots_in_use(look_ahead: int = 0) -> SchedulerHarness:
    harness = one_worker(policy(look_ahead=look_ahead), cpus=3)
    for name, priority in (("three", 3), ("old", 1), ("young", 1)):
        harness.submit(name, needs={"priority": priority})
        harness.run_pass(after_s=1)
        harness.accept(name)
    return harness


def pending_stops(harness: SchedulerHarness) -> list[tuple[str, str]]:
    messages = [command.build() for command in harness.pending()]
    return [(stop.task_id, stop.end) for stop in messages if isinstance(stop, StopTask)]


def test_the_lowest_and_youngest_makes_room_and_runs_again() -> None:
    harness = three_slots_in_use()
    harness.place("urgent", needs=URGENT)
    assert harness.preempted() == [("young", "urgent")]
    assert pending_stops(harness) == [("young", "preempted")]
    harness.end("young", AttemptEnd.PREEMPTED)
    assert harness.assignments() == [("urgent", "w1/cpu-2")]
    assert harness.freed("urgent") == [("young", "w1/cpu-2")]
    assert harness.task("young").attempt.number == 1


def test_nothing_is_preempted_in_vain_or_for_a_task_that_did_not_ask_or_is_no_higher() -> None:
    harness = three_slots_in_use()
    harness.submit("high", needs={"priority": 9})
    assert harness.place("same", needs={"priority": 1, "preempt": True}) == []
    harness = one_worker(cpus=2)
    harness.submit("high", needs={"priority": 9})
    harness.place("low", needs={"priority": 1})
    assert harness.place("urgent", devices=2, needs={"priority": 5, "preempt": True}) == []
    harness = three_slots_in_use()
    harness.join_worker("w2", cpus=1)
    assert harness.assign("urgent", needs=URGENT) == [("urgent", "w2/cpu-0")]


def test_as_few_as_possible_make_room() -> None:
    harness = one_worker(gpus=(24,))
    for name, cuda in (("small", 6), ("smaller", 5), ("large", 12)):
        harness.submit(name, kind="gpu", cuda=cuda, needs={"priority": 1})
        harness.run_pass(after_s=1)
    harness.place("urgent", kind="gpu", cuda=11, needs=URGENT)
    assert harness.preempted() == [("large", "urgent")]


def test_who_leaves_already_counts_as_gone_and_a_user_s_stop_counts_more_than_a_preemption() -> None:
    harness = three_slots_in_use()
    harness.place("urgent", needs=URGENT)
    for _ in range(5):
        assert harness.run_pass(after_s=1) == []
    harness.fold(TaskStopRequested(task_id="three", reason="user"))
    assert harness.place("next", needs=URGENT) == []
    harness = three_slots_in_use()
    harness.place("urgent", needs=URGENT)
    harness.fold(TaskStopRequested(task_id="young", reason="user"))
    assert pending_stops(harness) == [("young", "cancelled")]


def test_what_becomes_free_meanwhile_is_reserved_for_the_preempting_task() -> None:
    harness = three_slots_in_use()
    harness.place("urgent", devices=2, needs=URGENT)
    assert harness.preempted() == [("young", "urgent"), ("old", "urgent")]
    harness.submit("other", needs={"priority": 2})
    harness.end("old", AttemptEnd.PREEMPTED)
    assert harness.assignments() == []
    harness.end("young", AttemptEnd.PREEMPTED)
    assert harness.assignments() == [("urgent", "w1/cpu-1+cpu-2")]


def test_a_task_that_had_waited_long_is_not_preempted_by_one_below_its_effective_priority() -> None:
    harness = SchedulerHarness()
    harness.submit("patient", needs={"priority": 0})
    harness.now_ms += 6 * 600_000
    harness.join_worker(cpus=1)
    harness.run_pass()
    assert harness.place("urgent", needs={"priority": 5, "preempt": True}) == []
    harness.place("more-urgent", needs={"priority": 7, "preempt": True})
    assert harness.preempted() == [("patient", "more-urgent")]


def test_what_could_not_be_decided_or_did_not_reach_the_log_is_decided_in_the_next_pass() -> None:
    harness = one_worker(cpus=1)
    harness.place("low", "busy", needs={"priority": 1})
    harness.submit("urgent", needs=URGENT)
    harness.busy = {"busy"}
    assert harness.run_pass() == []
    harness.busy = set()
    harness.run_pass()
    assert harness.preempted() == [("low", "urgent")]
    harness = three_slots_in_use()
    harness.submit("urgent", needs=URGENT)
    for write in (False, True):
        harness.run_pass(write=write)
        assert harness.preempted() == [("young", "urgent")]
