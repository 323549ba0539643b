"""Who makes room for whom: only for a higher priority on request, only if it helps, and never twice."""

from tests.unit.scheduler.hall import Hall, policy
from trackside.contracts.tasks import AttemptEnd, StopTask, TaskStopRequested
from trackside.scheduler.device_commands import pending_commands

URGENT = {"priority": 9, "preempt": True}


def full(look_ahead: int = 0) -> Hall:
    """Gives a worker with three slots: priorities 3, 1 and, a little later, 1."""
    hall = Hall(policy(look_ahead=look_ahead))
    hall.join(cpus=3)
    for name, priority in (("three", 3), ("old", 1), ("young", 1)):
        hall.submit(name, needs={"priority": priority})
        hall.turn(after_s=1)
        hall.accept(name)
    return hall


def stops(hall: Hall) -> list[tuple[str, str]]:
    """Gives the stops that are owed, as (task, end)."""
    due = [command.build() for command in pending_commands(hall.cluster, hall.fleet)]
    return [(stop.task_id, stop.end) for stop in due if isinstance(stop, StopTask)]


def test_the_lowest_and_youngest_makes_room_and_runs_again() -> None:
    hall = full()
    hall.submit("urgent", needs=URGENT)
    hall.turn()
    assert hall.pushed() == [("young", "urgent")]
    assert stops(hall) == [("young", "preempted")]
    hall.end("young", AttemptEnd.PREEMPTED)
    assert hall.placed() == [("urgent", "w1/cpu-2")]
    hall.end("urgent")
    assert hall.placed() == [("young", "w1/cpu-2")]
    assert hall.task("young").attempt.number == 1


def test_nobody_is_pushed_aside_for_a_task_that_did_not_ask_or_is_no_higher() -> None:
    hall = full()
    hall.submit("high", needs={"priority": 9})
    hall.submit("same", needs={"priority": 1, "preempt": True})
    assert hall.turn() == []


def test_nobody_is_pushed_aside_in_vain() -> None:
    hall = Hall()
    hall.join(cpus=2)
    hall.submit("high", needs={"priority": 9})
    hall.submit("low", needs={"priority": 1})
    hall.turn()
    hall.submit("urgent", devices=2, needs={"priority": 5, "preempt": True})
    assert hall.turn() == []


def test_as_few_as_possible_make_room() -> None:
    hall = Hall()
    hall.join(gpus=(24,))
    for name, cuda in (("small", 6), ("smaller", 5), ("large", 12)):
        hall.submit(name, kind="gpu", cuda=cuda, needs={"priority": 1})
        hall.turn(after_s=1)
    hall.submit("urgent", kind="gpu", cuda=11, needs=URGENT)
    hall.turn()
    assert hall.pushed() == [("large", "urgent")]


def test_who_leaves_already_counts_as_gone_so_there_is_no_storm() -> None:
    hall = full()
    hall.submit("urgent", needs=URGENT)
    hall.turn()
    for _ in range(5):
        assert hall.turn(after_s=1) == []
    hall.tell(TaskStopRequested(task_id="three", reason="user"))
    hall.submit("next", needs=URGENT)
    assert hall.turn() == []


def test_what_becomes_free_meanwhile_is_kept_for_who_pushed() -> None:
    hall = full()
    hall.submit("urgent", devices=2, needs=URGENT)
    hall.turn()
    assert hall.pushed() == [("young", "urgent"), ("old", "urgent")]
    hall.submit("other", needs={"priority": 2})
    hall.end("old", AttemptEnd.PREEMPTED)
    assert hall.placed() == []
    hall.end("young", AttemptEnd.PREEMPTED)
    assert hall.placed() == [("urgent", "w1/cpu-1+cpu-2")]


def test_a_place_that_is_free_elsewhere_is_taken_first() -> None:
    hall = full()
    hall.join("w2", cpus=1)
    hall.submit("urgent", needs=URGENT)
    assert hall.placed() == [("urgent", "w2/cpu-0")]


def test_a_task_that_had_waited_long_is_not_pushed_aside_by_what_it_has_grown_above() -> None:
    hall = Hall()
    hall.submit("patient", needs={"priority": 0})
    hall.now_ms += 6 * 600_000
    hall.join(cpus=1)
    hall.turn()
    hall.submit("urgent", needs={"priority": 5, "preempt": True})
    assert hall.turn() == []
    hall.submit("more-urgent", needs={"priority": 7, "preempt": True})
    hall.turn()
    assert hall.pushed() == [("patient", "more-urgent")]


def test_a_user_s_stop_counts_more_than_a_preemption() -> None:
    hall = full()
    hall.submit("urgent", needs=URGENT)
    hall.turn()
    hall.tell(TaskStopRequested(task_id="young", reason="user"))
    assert stops(hall) == [("young", "cancelled")]


def test_victims_of_a_stream_that_can_t_be_decided_about_are_asked_in_the_next_turn() -> None:
    hall = Hall()
    hall.join(cpus=1)
    hall.submit("low", "busy", needs={"priority": 1})
    hall.turn()
    hall.submit("urgent", needs=URGENT)
    hall.busy = {"busy"}
    assert hall.turn() == []
    hall.busy = set()
    hall.turn()
    assert hall.pushed() == [("low", "urgent")]


def test_what_was_decided_and_did_not_reach_the_log_is_decided_again() -> None:
    hall = full()
    hall.submit("urgent", needs=URGENT)
    hall.turn(write=False)
    assert hall.pushed() == [("young", "urgent")]
    hall.turn()
    assert hall.pushed() == [("young", "urgent")]
