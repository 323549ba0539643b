"""The median rule stops what Optuna's pruner would stop, whatever is reported."""

import random
from typing import Any

import optuna
import pytest

from trackside.dispatcher.assessors import Assessment, problem

MEDIAN: dict[str, Any] = {"name": "median", "options": {"n_startup_trials": 2, "n_warmup_steps": 1}}


def with_completed(*levels: float, assessor: dict[str, Any] = MEDIAN) -> Assessment:
    assessment = Assessment(assessor, "maximize")
    for trial, level in enumerate(levels):
        for step in range(5):
            assessment.observe(trial, step, level + step / 10)
        assessment.end(trial, "complete")
    return assessment


def test_a_trial_below_the_median_is_stopped_and_one_above_is_kept() -> None:
    assessment = with_completed(0.5, 0.6, 0.7)
    assessment.observe(3, 2, 0.1)
    assessment.observe(4, 2, 0.95)
    assert (assessment.verdict(3), assessment.verdict(4)) == ("stop", "keep")


def test_no_trial_is_stopped_before_enough_have_completed_or_in_the_warm_up() -> None:
    young = with_completed(0.5)
    young.observe(1, 3, 0.0)
    assert young.verdict(1) == "keep"
    warm = with_completed(0.5, 0.6, 0.7)
    warm.observe(3, 0, 0.0)
    assert warm.verdict(3) == "keep"


def test_failed_and_pruned_trials_are_no_yardstick() -> None:
    assessment = Assessment(MEDIAN, "maximize")
    for trial, state in enumerate(("failed", "pruned", "failed")):
        assessment.observe(trial, 2, 0.9)
        assessment.end(trial, state)  # type: ignore[arg-type]
    assessment.observe(9, 2, 0.0)
    assert assessment.verdict(9) == "keep"


def test_a_restarted_trial_is_judged_on_its_new_attempt_alone() -> None:
    assessment = with_completed(0.5, 0.6, 0.7)
    assessment.observe(3, 4, 0.0)
    assert assessment.verdict(3) == "stop"
    assessment.restart(3)
    assert assessment.verdict(3) == "keep"
    assessment.observe(3, 1, 0.9)
    assert assessment.verdict(3) == "keep"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), None])
def test_values_that_are_no_finite_number_change_no_verdict(value: float | None) -> None:
    assessment = with_completed(0.5, 0.6, 0.7)
    assessment.observe(3, 2, value)
    assert assessment.verdict(3) == "keep"
    assessment.observe(3, 3, 0.1)
    assessment.observe(3, 4, value)
    assert assessment.verdict(3) == "stop"


def test_unknown_silent_and_ended_trials_are_kept() -> None:
    assessment = with_completed(0.5, 0.6, 0.7)
    assert assessment.verdict(77) == "keep"
    assessment.observe(0, 9, -5.0)
    assessment.end(0, "complete")
    assert assessment.verdict(0) == "keep"


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_verdicts_are_those_of_optuna_alone(direction: Any) -> None:
    options = {"n_startup_trials": 3, "n_warmup_steps": 2, "interval_steps": 2, "n_min_trials": 2}
    assessment = Assessment({"name": "median", "options": options}, direction)
    study = optuna.create_study(direction=direction, pruner=optuna.pruners.MedianPruner(**options))
    chance = random.Random(5)
    stopped = 0
    for number in range(60):
        trial = study.ask()
        level = chance.random()
        state = "complete"
        for step in range(10):
            value = level + chance.random() / 5
            trial.report(value, step)
            assessment.observe(number, step, value)
            verdict = assessment.verdict(number)
            assert (verdict == "stop") == trial.should_prune()
            if verdict == "stop":
                state = "pruned"
                stopped += 1
                break
        pruned = optuna.trial.TrialState.PRUNED
        study.tell(trial, *((None, pruned) if state == "pruned" else (level,)))
        assessment.end(number, state)  # type: ignore[arg-type]
    assert 10 < stopped < 50


@pytest.mark.parametrize(
    ("assessor", "path", "words"),
    [
        ({"name": "medain"}, "$.assessor.name", "did you mean 'median'"),
        (
            {"name": "median", "options": {"interval_steps": 0}},
            "$.assessor.options.interval_steps",
            "from 1",
        ),
        ({"name": "median", "options": {"warmup": 0}}, "$.assessor.options.warmup", "unknown option"),
    ],
)
def test_a_bad_assessor_is_refused_with_place_and_reason(
    assessor: dict[str, Any], path: str, words: str
) -> None:
    fault = problem(assessor)
    assert fault is not None
    assert fault[0] == path
    assert words in fault[1]
    assert problem(MEDIAN) is None
