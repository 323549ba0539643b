"""Tasks that wait behind running ones: never in the way of anybody, and taken back for something better."""

from dataclasses import replace

from tests.unit.scheduler.hall import Hall, policy
from trackside.contracts.fleet import WorkerLost
from trackside.contracts.tasks import RecallTask, RunTask, TaskStatus
from trackside.scheduler import decide
from trackside.scheduler.device_commands import PendingCommand, pending_commands


def hall_with(cpus: int = 1, running: int = 1) -> Hall:
    """Gives a worker whose slots run `t0` and so on."""
    hall = Hall(policy(look_ahead=1))
    hall.join(cpus=cpus)
    for number in range(running):
        hall.submit(f"t{number}")
    hall.turn()
    for number in range(running):
        hall.accept(f"t{number}", TaskStatus.TRAINING)
    return hall


def due(hall: Hall) -> list[PendingCommand]:
    """Gives what is owed to devices."""
    return list(pending_commands(hall.cluster, hall.fleet))


def test_one_task_and_no_more_waits_behind_a_running_one() -> None:
    hall = hall_with()
    hall.submit("a")
    hall.submit("b")
    hall.turn()
    assert hall.behind() == [("a", "w1/cpu-0")]
    assert hall.turn() == []
    assert hall.task("a").attempt.behind


def test_nobody_waits_behind_another_while_a_device_is_free() -> None:
    hall = hall_with(cpus=2, running=1)
    hall.submit("a")
    assert hall.placed() == [("a", "w1/cpu-1")]
    assert hall.behind() == []


def test_the_held_command_says_so_and_is_expected_once_the_device_is_free() -> None:
    hall = hall_with()
    hall.submit("a")
    hall.turn()
    (command,) = due(hall)
    run = command.build()
    assert isinstance(run, RunTask)
    assert (run.wait, command.deferred) == (True, True)
    hall.end("t0")
    (command,) = due(hall)
    assert not command.deferred
    hall.accept("a")
    assert due(hall) == []


def test_a_command_says_the_lease_that_its_scheduler_gives() -> None:
    hall = Hall(replace(policy(), lease_s=4.5))
    hall.join(cpus=1)
    hall.submit("a")
    hall.turn()
    (command,) = due(hall)
    run = command.build()
    assert isinstance(run, RunTask)
    assert run.lease_s == 4.5


def test_who_waited_behind_has_the_device_next_and_somebody_waits_behind_it() -> None:
    hall = hall_with()
    hall.submit("a")
    hall.submit("b")
    hall.turn()
    hall.end("t0")
    assert hall.placed() == []
    assert hall.behind() == [("b", "w1/cpu-0")]


def test_a_task_is_taken_back_when_another_device_becomes_free() -> None:
    hall = hall_with(cpus=2, running=2)
    hall.submit("a")
    hall.turn()
    assert hall.behind() == [("a", "w1/cpu-0")]
    hall.end("t1")
    hall.submit("b")
    hall.turn()
    assert (hall.recalled(), hall.placed()) == (["a"], [])
    (command,) = due(hall)
    assert isinstance(command.build(), RecallTask)
    hall.give_back("a")
    assert hall.placed() == [("a", "w1/cpu-1")]
    assert hall.behind() == [("b", "w1/cpu-0")]
    assert hall.task("a").attempt.number == 1


def test_a_task_that_begins_before_it_can_be_taken_back_keeps_its_place() -> None:
    hall = hall_with(cpus=2, running=2)
    hall.submit("a")
    hall.turn()
    hall.end("t1")
    hall.turn()
    assert hall.recalled() == ["a"]
    hall.accept("a")
    assert due(hall) == []
    hall.submit("b")
    assert hall.placed() == [("b", "w1/cpu-1")]


def test_a_place_kept_for_a_task_that_is_not_given_back_is_free_again_after_a_while() -> None:
    hall = hall_with(cpus=2, running=2)
    hall.submit("a")
    hall.turn()
    hall.end("t1")
    hall.turn()
    hall.submit("b")
    assert hall.placed(after_s=1) == []
    hall.turn(after_s=1)
    assert hall.placed() == [("b", "w1/cpu-1")]


def test_a_higher_priority_takes_the_place_behind() -> None:
    hall = hall_with()
    hall.submit("a", needs={"priority": 3})
    hall.turn()
    hall.submit("b", needs={"priority": 8})
    hall.turn()
    assert (hall.recalled(), hall.behind()) == (["a"], [])
    assert hall.turn() == []
    hall.give_back("a")
    hall.turn()
    assert hall.behind() == [("b", "w1/cpu-0")]


def test_a_task_that_may_only_wait_so_long_or_needs_several_devices_is_not_placed_behind() -> None:
    hall = hall_with(cpus=2, running=2)
    hall.submit("a", needs={"queue_timeout_s": 60})
    hall.submit("b", devices=2)
    assert hall.turn() == []


def test_a_gpu_has_a_task_behind_that_does_not_fit_beside_the_others_yet() -> None:
    hall = Hall(policy(look_ahead=1))
    hall.join(gpus=(24,))
    hall.submit("a", kind="gpu", cuda=12)
    hall.submit("b", kind="gpu", cuda=16)
    hall.submit("c", kind="gpu", cuda=4)
    hall.turn()
    assert [action.task.task_id for action in hall.actions] == ["a", "c", "b"]
    assert hall.behind() == [("b", "w1/gpu-0")]
    hall.submit("d", kind="gpu", cuda=6)
    assert hall.placed() == []
    hall.submit("e", kind="gpu", cuda=2)
    assert hall.placed() == [("e", "w1/gpu-0")]


def test_fm_14_a_task_behind_a_lost_worker_comes_back_as_those_that_ran() -> None:
    hall = hall_with()
    hall.submit("a")
    hall.turn()
    incarnation = hall.fleet.workers["w1"].incarnation
    hall.tell_fleet(WorkerLost(worker_id="w1", incarnation=incarnation, silent_ms=11_000))
    lost = [(task.task_id, ended) for task, ended in decide.lost_attempts(hall.cluster, hall.fleet, {})]
    assert {task_id for task_id, _ in lost} == {"t0", "a"}
    for _, proposal in lost:
        [ended] = proposal.events
        hall.tell(ended, role="scheduler")
    hall.join("w2", cpus=2)
    assert {name for name, _ in hall.placed()} == {"t0", "a"}


def test_without_look_ahead_nobody_waits_behind_another() -> None:
    hall = Hall(policy(look_ahead=0))
    hall.join(cpus=1)
    hall.submit("a")
    hall.submit("b")
    hall.turn()
    assert hall.behind() == []
