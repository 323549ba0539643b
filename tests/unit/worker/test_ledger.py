"""What a device command means, given what the worker knows."""

from typing import Any

import pytest

from trackside.contracts.tasks import AttemptEnd, AttemptEnded, RunTask, StopTask
from trackside.worker.ledger import REMEMBERED_TASKS, Ledger, Refusal, Verdict


def ledger() -> Ledger:
    return Ledger("now", {"cpu-0", "cpu-1"}, {"noop"})


def run(task_id: str = "a", attempt: int = 1, placement: int = 1, **more: Any) -> RunTask:
    fields = {"stream": "s", "incarnation": "now", "task_type": "noop", "device_ids": ["cpu-0"], **more}
    return RunTask(task_id=task_id, attempt=attempt, placement=placement, parameters={}, **fields)


def stop(task_id: str = "a", attempt: int = 1, placement: int = 1) -> StopTask:
    return StopTask(
        stream="s", task_id=task_id, attempt=attempt, placement=placement, incarnation="now", reason="user"
    )


def test_a_known_task_runs_on_a_free_device() -> None:
    assert ledger().judge_run(run(), "cpu-0") is Verdict.RUN


def test_a_command_for_another_incarnation_means_nothing() -> None:
    assert ledger().judge_run(run(incarnation="before"), "cpu-0") is Verdict.IGNORE


def test_an_unknown_task_type_is_refused() -> None:
    refused = ledger().judge_run(run(task_type="other"), "cpu-0")
    assert isinstance(refused, Refusal) and refused.code == "unknown_task_type"


def test_a_busy_device_is_refused_with_what_it_runs() -> None:
    known = ledger()
    known.started("a", (1, 1), "cpu-0")
    refused = known.judge_run(run("b"), "cpu-0")
    assert isinstance(refused, Refusal) and refused.code == "device_busy" and "task a" in refused.message
    known.ended("a", (1, 1), "cpu-0")
    assert known.judge_run(run("b"), "cpu-0") is Verdict.RUN


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
    known = ledger()
    known.started("a", (2, 2), "cpu-0")
    assert known.judge_run(run("a", attempt, placement), "cpu-1") is verdict


def test_a_stop_of_what_runs_stops_it_and_of_what_ended_is_answered_again() -> None:
    known = ledger()
    known.started("a", (1, 1), "cpu-0")
    assert known.judge_stop(stop()) is Verdict.STOP
    known.ended("a", (1, 1), "cpu-0")
    assert known.judge_stop(stop()) is Verdict.ANSWER_AGAIN


def test_a_stop_of_what_was_never_seen_keeps_it_from_running() -> None:
    known = ledger()
    assert known.judge_stop(stop()) is Verdict.NEVER_RUN
    known.buried("a", (1, 1))
    assert known.judge_run(run(), "cpu-0") is Verdict.ANSWER_AGAIN


def test_a_refused_placement_is_refused_again_even_if_the_device_is_free_by_then() -> None:
    known = ledger()
    answer = AttemptEnded(task_id="a", attempt=1, placement=1, incarnation="now", end=AttemptEnd.LOST)
    known.answered("a", (1, 1), answer)
    assert known.judge_run(run(), "cpu-0") is Verdict.ANSWER_AGAIN
    assert known.tasks["a"].answer is answer


def test_a_late_answer_of_an_older_placement_leaves_the_newer_one_alone() -> None:
    known = ledger()
    known.started("a", (2, 1), "cpu-0")
    known.answered(
        "a", (1, 1), AttemptEnded(task_id="a", attempt=1, placement=1, incarnation="now", end=AttemptEnd.LOST)
    )
    known.ended("a", (1, 1), "cpu-1")
    assert known.tasks["a"].answer is None and known.tasks["a"].running_on == "cpu-0"


def test_only_so_many_tasks_are_remembered() -> None:
    known = ledger()
    for number in range(REMEMBERED_TASKS + 5):
        known.buried(str(number), (1, 1))
    assert len(known.tasks) == REMEMBERED_TASKS
    assert "4" not in known.tasks and "5" in known.tasks
