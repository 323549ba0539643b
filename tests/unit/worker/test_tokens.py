"""What a device command means, given what the worker knows."""

from typing import Any

import pytest

from trackside.contracts.tasks import AttemptEnd, AttemptEnded, RecallTask, RunTask, StopTask
from trackside.worker.placements.fencing import REMEMBERED_TASKS, Refusal, Tokens, Verdict


def tokens() -> Tokens:
    return Tokens("now", {"noop"})


def run(task_id: str = "a", attempt: int = 1, placement: int = 1, **more: Any) -> RunTask:
    fields = {"stream": "s", "incarnation": "now", "task_type": "noop", "device_ids": ["cpu-0"], **more}
    return RunTask(task_id=task_id, attempt=attempt, placement=placement, parameters={}, **fields)


def stop(task_id: str = "a", attempt: int = 1, placement: int = 1) -> StopTask:
    return StopTask(
        stream="s", task_id=task_id, attempt=attempt, placement=placement, incarnation="now", reason="user"
    )


def recall(task_id: str = "a", attempt: int = 1, placement: int = 1) -> RecallTask:
    return RecallTask(stream="s", task_id=task_id, attempt=attempt, placement=placement, incarnation="now")


def test_a_known_task_runs() -> None:
    assert tokens().judge_run(run()) is Verdict.RUN


def test_a_command_for_another_incarnation_means_nothing() -> None:
    assert tokens().judge_run(run(incarnation="before")) is Verdict.IGNORE


def test_an_unknown_task_type_is_refused() -> None:
    refused = tokens().judge_run(run(task_type="other"))
    assert isinstance(refused, Refusal) and refused.code == "unknown_task_type"


@pytest.mark.parametrize(
    ("attempt", "placement", "verdict"),
    [
        (2, 2, Verdict.ANSWER_AGAIN),
        (2, 1, Verdict.IGNORE),
        (1, 9, Verdict.IGNORE),
        (2, 3, Verdict.RUN),
        (3, 1, Verdict.RUN),
    ],
)
def test_placements_are_compared_within_one_task(attempt: int, placement: int, verdict: Verdict) -> None:
    known = tokens()
    known.came("a", (2, 2))
    assert known.judge_run(run("a", attempt, placement)) is verdict


def test_a_stop_of_what_runs_stops_it_and_of_what_ended_is_answered_again() -> None:
    known = tokens()
    known.came("a", (1, 1))
    assert known.judge_stop(stop()) is Verdict.STOP
    known.left("a", (1, 1))
    assert known.judge_stop(stop()) is Verdict.ANSWER_AGAIN


def test_a_stop_of_what_was_never_seen_keeps_it_from_running() -> None:
    known = tokens()
    assert known.judge_stop(stop()) is Verdict.NEVER_RUN
    known.buried("a", (1, 1))
    assert known.judge_run(run()) is Verdict.ANSWER_AGAIN


def test_a_refused_placement_is_refused_again() -> None:
    known = tokens()
    answer = AttemptEnded(task_id="a", attempt=1, placement=1, incarnation="now", end=AttemptEnd.LOST)
    known.answered("a", (1, 1), answer)
    assert known.judge_run(run()) is Verdict.ANSWER_AGAIN
    assert known.tasks["a"].answer is answer


def test_a_late_answer_of_an_older_placement_leaves_the_newer_one_alone() -> None:
    known = tokens()
    known.came("a", (2, 1))
    known.answered(
        "a", (1, 1), AttemptEnded(task_id="a", attempt=1, placement=1, incarnation="now", end=AttemptEnd.LOST)
    )
    known.left("a", (1, 1))
    assert known.tasks["a"].answer is None and known.tasks["a"].here


def test_only_so_many_tasks_are_remembered() -> None:
    known = tokens()
    for number in range(REMEMBERED_TASKS + 5):
        known.buried(str(number), (1, 1))
    assert len(known.tasks) == REMEMBERED_TASKS
    assert "4" not in known.tasks and "5" in known.tasks


def test_what_has_not_begun_is_returned_when_it_is_asked_back() -> None:
    known = tokens()
    known.came("a", (1, 1))
    assert known.judge_recall(recall()) is Verdict.RETURN
    known.begun("a", (1, 1))
    assert known.judge_recall(recall()) is Verdict.ANSWER_AGAIN


def test_what_was_asked_back_before_it_came_never_runs() -> None:
    known = tokens()
    assert known.judge_recall(recall()) is Verdict.NEVER_RUN
    known.buried("a", (1, 1))
    assert known.judge_run(run()) is Verdict.ANSWER_AGAIN
    assert known.judge_recall(recall(placement=2)) is Verdict.NEVER_RUN
