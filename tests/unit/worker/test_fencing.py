"""What a device command means, given what the worker knows."""

from typing import Any

import pytest

from trackside.contracts.device_commands import RecallTask, RunTask, StopTask
from trackside.contracts.tasks import AttemptEnd, AttemptEnded
from trackside.worker.placements.fencing import REMEMBERED_TASKS, CommandAction, FencingTable, Refusal


def fencing_table() -> FencingTable:
    return FencingTable("now", {"noop"})


def run(task_id: str = "a", attempt: int = 1, placement: int = 1, **more: Any) -> RunTask:
    fields = {"stream": "s", "incarnation": "now", "task_type": "noop", "device_ids": ["cpu-0"], **more}
    return RunTask(task_id=task_id, attempt=attempt, placement=placement, parameters={}, **fields)


def stop(task_id: str = "a", attempt: int = 1, placement: int = 1) -> StopTask:
    return StopTask(
        stream="s", task_id=task_id, attempt=attempt, placement=placement, incarnation="now", reason="user"
    )


def recall(task_id: str = "a", attempt: int = 1, placement: int = 1) -> RecallTask:
    return RecallTask(stream="s", task_id=task_id, attempt=attempt, placement=placement, incarnation="now")


def ended(end: AttemptEnd) -> AttemptEnded:
    return AttemptEnded(task_id="a", attempt=1, placement=1, incarnation="now", end=end)


def test_a_task_of_a_known_type_runs_if_the_command_is_for_this_incarnation() -> None:
    assert fencing_table().action_for_run(run()) is CommandAction.RUN
    assert fencing_table().action_for_run(run(incarnation="before")) is CommandAction.IGNORE
    refused = fencing_table().action_for_run(run(task_type="other"))
    assert isinstance(refused, Refusal) and refused.code == "unknown_task_type"


@pytest.mark.parametrize(
    ("attempt", "placement", "action"),
    [
        (2, 2, CommandAction.ANSWER_AGAIN),
        (2, 1, CommandAction.IGNORE),
        (1, 9, CommandAction.IGNORE),
        (2, 3, CommandAction.RUN),
        (3, 1, CommandAction.RUN),
    ],
)
def test_placements_are_compared_within_one_task(attempt: int, placement: int, action: CommandAction) -> None:
    fencing = fencing_table()
    fencing.record_accepted("a", (2, 2))
    assert fencing.action_for_run(run("a", attempt, placement)) is action


def test_what_runs_is_stopped_and_the_end_of_what_ended_is_told_again_until_it_is_reported() -> None:
    fencing = fencing_table()
    fencing.record_accepted("a", (1, 1))
    assert fencing.action_for_stop(stop()) is CommandAction.STOP
    fencing.record_finished("a", (1, 1))
    assert fencing.action_for_stop(stop()) is CommandAction.ANSWER_AGAIN
    fencing.record_answer("a", (1, 1), ended(AttemptEnd.FINISHED))
    assert fencing.action_for_stop(stop()) is CommandAction.IGNORE
    assert fencing.action_for_run(run()) is CommandAction.ANSWER_AGAIN


def test_what_was_stopped_or_asked_back_before_it_came_never_runs() -> None:
    fencing = fencing_table()
    assert fencing.action_for_stop(stop()) is CommandAction.NEVER_RUN
    fencing.record_forbidden("a", (1, 1))
    assert fencing.action_for_run(run()) is CommandAction.ANSWER_AGAIN
    fencing = fencing_table()
    assert fencing.action_for_recall(recall()) is CommandAction.NEVER_RUN
    fencing.record_forbidden("a", (1, 1))
    assert fencing.action_for_run(run()) is CommandAction.ANSWER_AGAIN
    assert fencing.action_for_recall(recall(placement=2)) is CommandAction.NEVER_RUN


def test_a_refused_placement_is_refused_again_and_a_late_answer_of_an_older_one_changes_nothing() -> None:
    fencing = fencing_table()
    answer = ended(AttemptEnd.LOST)
    fencing.record_answer("a", (1, 1), answer)
    assert fencing.action_for_run(run()) is CommandAction.ANSWER_AGAIN
    assert fencing.tasks["a"].answer is answer
    fencing = fencing_table()
    fencing.record_accepted("a", (2, 1))
    fencing.record_answer("a", (1, 1), ended(AttemptEnd.LOST))
    fencing.record_finished("a", (1, 1))
    assert fencing.tasks["a"].answer is None and fencing.tasks["a"].active


def test_only_so_many_tasks_are_remembered() -> None:
    fencing = fencing_table()
    for number in range(REMEMBERED_TASKS + 5):
        fencing.record_forbidden(str(number), (1, 1))
    assert len(fencing.tasks) == REMEMBERED_TASKS
    assert "4" not in fencing.tasks and "5" in fencing.tasks


def test_what_has_not_begun_is_returned_when_it_is_asked_back() -> None:
    fencing = fencing_table()
    fencing.record_accepted("a", (1, 1))
    assert fencing.action_for_recall(recall()) is CommandAction.RETURN
    fencing.record_begun("a", (1, 1))
    assert fencing.action_for_recall(recall()) is CommandAction.ANSWER_AGAIN
