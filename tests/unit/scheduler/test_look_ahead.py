"""Tasks that are placed after running ones: they block no other task, and are recalled for a better place."""

from dataclasses import replace

import pytest

from tests.unit.scheduler.given import policy
from tests.unit.scheduler.harness import SchedulerHarness, one_worker
from trackside.contracts.tasks.device_commands import RecallTask, RunTask
from trackside.contracts.tasks.tasks import TaskStatus


def harness_with(cpus: int = 1, running: int = 1) -> SchedulerHarness:
    """Returns a worker whose slots run `t0` and so on."""
    harness = one_worker(policy(look_ahead=1), cpus=cpus)
    for number in range(running):
        harness.begin(f"t{number}")
    return harness


def recalling() -> SchedulerHarness:
    """Returns a worker that is to give back `a`, which waits behind a task, as another device is free."""
    harness = harness_with(cpus=2, running=2)
    harness.place("a")
    harness.end("t1")
    harness.run_pass()
    assert harness.recalled() == ["a"]
    return harness


def test_one_task_waits_behind_a_running_one_and_has_the_device_next() -> None:
    harness = harness_with()
    harness.submit_each("ab")
    harness.run_pass()
    assert harness.placed_behind() == [("a", "w1/cpu-0")] and harness.task("a").attempt.behind
    assert harness.run_pass() == []
    assert harness.freed("t0") == []
    assert harness.placed_behind() == [("b", "w1/cpu-0")]


def test_nobody_waits_behind_another_without_look_ahead_or_while_a_device_is_free() -> None:
    harness = harness_with(cpus=2, running=1)
    assert harness.assign("a") == [("a", "w1/cpu-1")]
    assert harness.placed_behind() == []
    harness = one_worker(policy(look_ahead=0), cpus=1)
    harness.submit_each("ab")
    assert (harness.assignments(), harness.placed_behind()) == ([("a", "w1/cpu-0")], [])


def test_the_held_command_says_so_with_the_lease_and_is_expected_once_the_device_is_free() -> None:
    harness = harness_with()
    harness.place("a")
    (command,) = harness.pending()
    run = command.build()
    assert isinstance(run, RunTask) and (run.wait, command.deferred) == (True, True)
    harness.end("t0")
    (command,) = harness.pending()
    assert not command.deferred
    harness.accept("a")
    assert harness.pending() == []
    harness = SchedulerHarness(replace(policy(), lease_s=4.5))
    harness.join_worker(cpus=1)
    harness.place("a")
    (command,) = harness.pending()
    run = command.build()
    assert isinstance(run, RunTask) and run.lease_s == 4.5


def test_a_task_is_taken_back_when_another_device_becomes_free() -> None:
    harness = harness_with(cpus=2, running=2)
    harness.place("a")
    assert harness.placed_behind() == [("a", "w1/cpu-0")]
    harness.end("t1")
    harness.place("b")
    assert (harness.recalled(), harness.assignments()) == (["a"], [])
    (command,) = harness.pending()
    assert isinstance(command.build(), RecallTask)
    harness.return_task("a")
    assert harness.assignments() == [("a", "w1/cpu-1")]
    assert harness.placed_behind() == [("b", "w1/cpu-0")]
    assert harness.task("a").attempt.number == 1


def test_a_place_kept_for_a_task_that_is_taken_back_is_free_again_if_that_begins_or_after_a_while() -> None:
    harness = recalling()
    harness.accept("a")
    assert harness.pending() == []
    assert harness.assign("b") == [("b", "w1/cpu-1")]
    harness = recalling()
    harness.submit("b")
    assert harness.assignments(after_s=1) == []
    harness.run_pass(after_s=1)
    assert harness.assignments() == [("b", "w1/cpu-1")]


def test_a_task_that_may_only_wait_so_long_or_needs_several_devices_is_not_placed_behind() -> None:
    harness = harness_with(cpus=2, running=2)
    harness.submit("a", needs={"queue_timeout_s": 60})
    assert harness.place("b", devices=2) == []


def test_a_gpu_has_a_task_behind_that_does_not_fit_beside_the_others_yet() -> None:
    harness = one_worker(policy(look_ahead=1), gpus=(24,))
    harness.submit("a", kind="gpu", cuda=12)
    harness.submit("b", kind="gpu", cuda=16)
    harness.place("c", kind="gpu", cuda=4)
    assert [action.task.task_id for action in harness.actions] == ["a", "c", "b"]
    assert harness.placed_behind() == [("b", "w1/gpu-0")]
    assert harness.assign("d", kind="gpu", cuda=6) == []
    assert harness.assign("e", kind="gpu", cuda=2) == [("e", "w1/gpu-0")]


def test_fm_14_a_task_behind_a_lost_worker_comes_back_as_those_that_ran() -> None:
    harness = harness_with()
    harness.place("a")
    harness.lose("w1")
    harness.end_lost()
    harness.join_worker("w2", cpus=2)
    assert {name for name, _ in harness.assignments()} == {"t0", "a"}


def harness_of_known_tasks(took_ms: int, look_ahead: int = 8) -> SchedulerHarness:
    """Returns a worker with one slot, on which a task took so long."""
    harness = one_worker(policy(look_ahead=look_ahead), cpus=1, types=("digits", "other"))
    harness.begin("known")
    harness.now_ms += took_ms
    harness.end("known")
    return harness


def begin(harness: SchedulerHarness, count: int) -> None:
    """Submits tasks `0` and so on; the first one begins, and others are placed behind it."""
    harness.submit_each(map(str, range(count)))
    harness.run_pass()
    harness.accept("0", TaskStatus.TRAINING)
    harness.run_pass()


def waiting(harness: SchedulerHarness) -> list[str]:
    return [booking.task_id for booking in harness.cluster.hosts.by_id["w1"].devices["cpu-0"].waiting]


@pytest.mark.parametrize(
    ("took_ms", "look_ahead", "count"),
    [(0, 8, 8), (20, 8, 8), (5, 3, 3), (5, 1, 1), (60, 8, 4), (150, 8, 2), (200, 8, 1), (9_000, 8, 1)],
)
def test_as_many_tasks_wait_on_a_device_as_are_short(took_ms: int, look_ahead: int, count: int) -> None:
    harness = harness_of_known_tasks(took_ms, look_ahead)
    begin(harness, 15)
    assert waiting(harness) == [str(number) for number in range(1, count + 1)]


def test_a_task_of_unknown_length_waits_with_no_short_ones_and_keeps_no_place_from_them() -> None:
    harness = harness_of_known_tasks(5)
    harness.begin("0")
    harness.submit("long", task_type="other")
    harness.place("short")
    assert (waiting(harness), harness.run_pass()) == (["long"], [])
    harness = harness_of_known_tasks(5)
    begin(harness, 6)
    assert harness.place("long", task_type="other") == []
    harness.place("6")
    assert waiting(harness) == ["1", "2", "3", "4", "5", "6"]


def test_a_device_gets_the_next_tasks_together_when_half_of_them_have_begun() -> None:
    harness = harness_of_known_tasks(5)
    begin(harness, 30)
    placed = []
    for number in range(8):
        harness.end(str(number))
        harness.accept(str(number + 1), TaskStatus.TRAINING)
        placed.append([action.task.task_id for action in harness.run_pass()])
    assert placed == [[], [], [], ["9", "10", "11", "12"], [], [], [], ["13", "14", "15", "16"]]


@pytest.mark.parametrize("look_ahead", [1, 3, 8])
def test_a_higher_priority_takes_the_last_place_behind(look_ahead: int) -> None:
    harness = harness_of_known_tasks(5, look_ahead)
    begin(harness, look_ahead + 1)
    harness.place("high", needs={"priority": 8})
    assert harness.recalled() == [str(look_ahead)]
    assert harness.run_pass() == []
    harness.return_task(str(look_ahead))
    harness.run_pass()
    assert waiting(harness) == [*(str(number) for number in range(1, look_ahead)), "high"]
