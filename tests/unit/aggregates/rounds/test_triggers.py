"""Triggers: when they hold by their numbers, and what is refused of them when a job is made (I8, I9, I11)."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from tests.unit.aggregates.rounds.given import condition
from trackside.aggregates.rounds.job.job_spec import StageSpec
from trackside.aggregates.rounds.job.trigger_messages import MAX_TRIGGERS, MetricCondition, Trigger
from trackside.aggregates.rounds.messages import SeenMetric
from trackside.aggregates.rounds.stages.triggers import (
    TRAIN_METRICS,
    Known,
    conditions_of,
    holds,
    problems,
    seen,
)
from trackside.contracts.envelope.refusals import Problem, field_names, problems_of

OPERATORS = (">", ">=", "==", "!=", "<=", "<")
DAILY = {"type": "daily", "start": "08:00", "end": "08:00"}
CRON = {"type": "cron", "cron": "0 0 * * *"}
NAMES = frozenset(TRAIN_METRICS)


def parsed(trigger: dict[str, Any]) -> Trigger:
    found = StageSpec.model_validate({"trigger": trigger}).trigger
    assert found is not None
    return found


def refused(trigger: dict[str, Any]) -> tuple[Problem, ...]:
    body: Any = {"trigger": trigger}
    with pytest.raises(ValidationError) as raised:
        StageSpec.model_validate(body)
    return problems_of(raised.value, field_names(StageSpec), body)


def found_problems(trigger: dict[str, Any], names: Any = NAMES) -> list[tuple[str, str, str]]:
    found = problems(parsed(trigger), "$.train.trigger", names)
    return [(problem.code, problem.path, problem.message) for problem in found]


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (500 - 2e-6, "!= <= <"),
        (500 - 0.9e-6, ">= == <="),
        (500, ">= == <="),
        (500 + 0.9e-6, ">= == <="),
        (500 + 2e-6, "> >= !="),
        (-math.pi, "!= <= <"),
    ],
)
def test_numbers_that_differ_by_less_than_a_millionth_are_equal(value: float, held: str) -> None:
    """I8: for `>` and `<`, too, they are."""
    known = Known({"m": value})
    assert [each for each in OPERATORS if holds(parsed(condition("m", each, 500)), known, 0)] == held.split()


@pytest.mark.parametrize(
    ("name", "operator"),
    [("gt", ">"), ("ge", ">="), ("eq", "=="), ("=", "=="), ("ne", "!="), ("le", "<="), ("lt", "<")],
)
def test_an_operator_has_the_names_that_sedna_has_for_it(name: str, operator: str) -> None:
    trigger = parsed(condition("m", name, 1))
    assert isinstance(trigger, MetricCondition)
    assert (trigger.operator, trigger.model_dump()["operator"]) == (operator, operator)


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("value", [None, "nan", "inf", True, "7", [7.0], {}, 10**400])
def test_no_condition_holds_of_what_is_no_number(operator: str, value: Any) -> None:
    """I11, I12: not `!=` either, which holds of a NaN in Go as in Python."""
    assert not holds(parsed(condition("m", operator, 0)), Known({"m": value}), 0)
    assert not holds(parsed(condition("m", operator, 0)), Known({}), 0)


def test_all_of_and_any_of_are_what_they_say() -> None:
    yes, no = condition("m", ">", 0), condition("m", "<", 0)
    for kind, result in (("all_of", [True, False, False]), ("any_of", [True, True, False])):
        parts = ([yes, yes], [yes, no], [no, no])
        found = [holds(parsed({"type": kind, "triggers": part}), Known({"m": 1}), 0) for part in parts]
        assert found == result


def test_a_trigger_says_the_numbers_that_it_has_seen() -> None:
    parts = [condition("num_of_samples", ">", 5), condition("seconds_since_last_round", ">", 5)]
    parts.append({"type": "any_of", "triggers": [condition("drift", ">", 0.2), {"type": "manual"}]})
    trigger = parsed({"type": "all_of", "triggers": parts})
    expected = {
        "num_of_samples": SeenMetric(value=3.0),
        "seconds_since_last_round": SeenMetric(value=2.5),
        "drift": SeenMetric(reason="there is no metric 'drift'"),
    }
    assert seen(trigger, Known({"num_of_samples": 3}, last_round_ms=1_000), 3_500) == expected
    assert [each.metric for each in conditions_of(trigger)] == list(expected)


@pytest.mark.parametrize(
    ("trigger", "code", "place", "message"),
    [
        (condition("m", "~", 0), "unknown_value", ".operator", "Input should be '>', '>=', '=='"),
        (condition("m", ">", math.nan), "threshold_range", ".threshold", "Input should be a finite number"),
        (condition("m", ">", 0) | {"threshold": "1"}, "wrong_type", ".threshold", "Input should be a valid"),
        (condition("", ">", 0), "bad_length", ".metric", "String should have at least 1 character"),
        ({"type": "weekly"}, "unknown_value", "", "Input tag 'weekly' found using 'type' does not match"),
        ({"type": "any_of", "triggers": []}, "bad_length", ".triggers", "List should have at least 1 item"),
    ],
)
def test_a_trigger_of_another_form_is_refused(trigger: Any, code: str, place: str, message: str) -> None:
    """I8: an unknown operator never fires in Sedna, without a word."""
    (problem,) = refused(trigger)
    assert (problem.code, problem.path) == (code, f"$.trigger{place}")
    assert problem.message.startswith(message)


@pytest.mark.parametrize(
    ("trigger", "place", "message"),
    [
        (condition("num_of_sample", ">=", 5), "metric", "did you mean 'num_of_samples'?"),
        (condition("num_of_samples[0]", ">=", 5), "metric", "is a number, not a list; write num_of_samples"),
        (condition("mean(drift)", ">=", 5), "metric", "drift is a number, not a list; write drift"),
        (condition("median(m)", ">=", 5), "metric", "there is no reducer 'median'; expected one of: mean"),
        (condition("m[", ">=", 5), "metric", "'m[' is not a metric; expected NAME, NAME[0]"),
        (condition("seconds_since_last_round", "==", 5), "operator", "expected another operator, such as >="),
        (DAILY, "end", "the window from 08:00 to 08:00 is empty; expected another end"),
        (DAILY | {"end": "09:00", "timezone": "Mars"}, "timezone", "'Mars' is no time zone; expected a name"),
        (CRON | {"cron": "0 0 30 2 *"}, "cron", "'0 0 30 2 *': Bad day-of-month; expected minute, hour"),
        (CRON | {"cron": "@daily"}, "cron", "'@daily' has 1 fields, not 5: expected minute, hour"),
        (CRON | {"timezone": "../etc/passwd"}, "timezone", "'../etc/passwd' is no time zone; "),
    ],
)
def test_what_could_never_hold_is_refused(trigger: dict[str, Any], place: str, message: str) -> None:
    ((code, path, found),) = found_problems(trigger)
    codes = {"end": "empty_window", "cron": "bad_cron"}
    assert (code, path) == (codes.get(place, "unknown_value"), f"$.train.trigger.{place}")
    assert message in found


@pytest.mark.parametrize("time", ["7:00", "24:01", "25:00", "12:60", "12.30", "noon", "12:30\n", "١٢:٣٠", ""])
def test_a_time_of_a_day_has_two_digits_for_hours_and_for_minutes(time: str) -> None:
    """I10: Sedna compares whatever text there is."""
    (problem,) = refused({"type": "daily", "start": "08:00", "end": time})
    message = f"{time!r} is not a time of day; expected HH:MM, from 00:00 to 24:00"
    assert problem == Problem(code="unknown_value", path="$.trigger.end", message=message)


def test_a_trigger_has_bounds() -> None:
    deep = wide = condition("m", ">", 0)
    for _ in range(5):
        deep = {"type": "all_of", "triggers": [deep]}
    (problem,) = refused(deep)
    message = "triggers are nested 6 levels deep; expected at most 5"
    assert problem == Problem(code="too_deep", path="$.trigger", message=message)
    for number in (10, 5):
        wide = {"type": "any_of", "triggers": [wide] * number}
    (problem,) = refused(wide)
    message = f"a trigger of 56 triggers; expected at most {MAX_TRIGGERS}"
    assert problem == Problem(code="bad_length", path="$.trigger", message=message)


def test_all_problems_of_a_trigger_are_named_at_once_each_at_its_path() -> None:
    window = {"type": "daily", "start": "08:00", "end": "08:00", "timezone": "Nowhere"}
    inner = {"type": "any_of", "triggers": [{"type": "manual"}, window]}
    trigger = {"type": "all_of", "triggers": [condition("x", ">", 0), inner, {"type": "cron", "cron": "x"}]}
    assert [(code, path) for code, path, _ in found_problems(trigger)] == [
        ("unknown_value", "$.train.trigger.triggers[0].metric"),
        ("empty_window", "$.train.trigger.triggers[1].triggers[1].end"),
        ("unknown_value", "$.train.trigger.triggers[1].triggers[1].timezone"),
        ("bad_cron", "$.train.trigger.triggers[2].cron"),
    ]


def test_metrics_of_an_evaluation_are_unknown_before_it() -> None:
    for metric in ("precision_delta[0]", "mean(drift)", "max(loss)", "loss"):
        assert found_problems(condition(metric, ">", 0), names=None) == []
