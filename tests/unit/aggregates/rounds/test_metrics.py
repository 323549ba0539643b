"""Metrics that conditions name, and the differences between two models (I11, I12, I14)."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.aggregates.rounds.messages import SeenMetric
from trackside.aggregates.rounds.stages import metrics

SOME: dict[str, Any] = {
    "accuracy": [0.5, 0.75, 0.25],
    "loss": 0.125,
    "none": [],
    "broken": [1.0, None, "nan"],
}
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["nan", "inf"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


def test_a_number_is_read_by_its_name_its_item_or_its_reducer() -> None:
    """I11, with -1 for the last item, which makes Sedna crash."""
    for text, value in (
        *(("loss", 0.125), ("mean(accuracy)", 0.5), ("max(accuracy)", 0.75), ("min( accuracy )", 0.25)),
        *(("accuracy[0]", 0.5), ("accuracy[2]", 0.25), ("accuracy[-1]", 0.25), (" accuracy [-3] ", 0.5)),
        ("broken[0]", 1.0),
    ):
        assert metrics.read(text, SOME) == SeenMetric(value=value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "accuracy",
            "accuracy is a list of 3 items, not a number; "
            "write mean(accuracy), max(accuracy), min(accuracy), accuracy[0] or accuracy[-1]",
        ),
        ("acuracy", "there is no metric 'acuracy'; did you mean 'accuracy'?"),
        ("unknown[0]", "there is no metric 'unknown'"),
        ("accuracy[3]", "there is no accuracy[3]: the list has 3 items"),
        ("accuracy[-4]", "there is no accuracy[-4]: the list has 3 items"),
        ("none[0]", "there is no none[0]: the list has 0 items"),
        ("mean(none)", "none is an empty list: it has no mean"),
        ("mean(loss)", "loss is not a list; write loss"),
        ("loss[0]", "loss is not a list; write loss"),
        ("max(broken)", "broken[1] is null, not a number"),
        ("broken[-1]", "broken[-1] is nan"),
    ],
)
def test_what_is_no_number_is_missing_with_the_reason(text: str, reason: str) -> None:
    """I11, I12: a list that is read as 0 would never deploy, or always."""
    assert metrics.read(text, SOME) == SeenMetric(reason=reason)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (True, "m is true, not a number"),
        (None, "m is null, not a number"),
        ("0.5", "m is a text, not a number"),
        ({}, "m is an object, not a number"),
        ("nan", "m is nan"),
        ("-inf", "m is -inf"),
        (math.nan, "m is nan"),
        (math.inf, "m is inf"),
        (10**400, "m is too large for a number of 64 bits"),
    ],
)
def test_a_value_of_another_kind_is_no_number(value: Any, reason: str) -> None:
    assert metrics.read("m", {"m": value}).reason == reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("median(m)", "there is no reducer 'median'; expected one of: mean, max, min"),
        ("Mean(m)", "there is no reducer 'Mean'; expected one of: mean, max, min"),
        ("m[", "'m[' is not a metric; expected NAME, NAME[0], NAME[-1], mean(NAME), max(NAME) or min(NAME)"),
        ("m[1.5]", "'m[1.5]' is not a metric; expected NAME, NAME[0]"),
        ("mean(m)[0]", "'mean(m)[0]' is not a metric; "),
        ("m[0][1]", "'m[0][1]' is not a metric; "),
        ("mean( )", "'mean( )' is not a metric; "),
        ("  ", "'  ' is not a metric; "),
    ],
)
def test_a_text_that_names_no_metric_is_a_problem(text: str, message: str) -> None:
    assert metrics.metric_problem(text).startswith(message)
    assert metrics.read(text, SOME).reason == metrics.metric_problem(text)


def test_a_difference_is_of_each_item_and_goes_before_a_metric_of_the_same_name() -> None:
    """I14: in Sedna the order of a map decides."""
    trained = {"accuracy": [0.75, 0.5], "loss": 1}
    deployed = {"accuracy": [0.5, 0.75], "loss": 1.5}
    found = {"accuracy_delta": [0.25, -0.25], "loss_delta": -0.5}
    assert (metrics.deltas(trained, deployed), metrics.missing_deltas(trained, deployed)) == (found, {})
    assert metrics.with_deltas(trained, deployed) == {**trained, **found}
    assert metrics.with_deltas({"m": 2, "m_delta": 9}, {"m": 1, "m_delta": 8})["m_delta"] == 1
    assert metrics.read("mean(m)", {"m": [1.5e308, 1.5e308]}).value == 1.5e308, "its sum is too large"


@pytest.mark.parametrize(
    ("trained", "deployed", "reason"),
    [
        ({"m": 1}, {}, "only the trained model has m"),
        ({}, {"m": [1]}, "only the deployed model has m"),
        ({"m": [1, 2]}, {"m": [1]}, "m has 2 items of the trained model, and 1 item of the deployed one"),
        ({"m": [1]}, {"m": 1}, "m is a list of the trained model only"),
        ({"m": 1}, {"m": [1]}, "m is a list of the deployed model only"),
        ({"m": 1}, {"m": "nan"}, "m is nan, of the deployed model"),
        ({"m": True}, {"m": 1}, "m is true, not a number, of the trained model"),
        ({"m": 1e308}, {"m": -1e308}, "the difference of m is too large for a number of 64 bits"),
    ],
)
def test_a_difference_that_cannot_be_says_why(trained: Any, deployed: Any, reason: str) -> None:
    """I14: of a metric that only the trained model has, or a longer list of it, Sedna crashes."""
    assert metrics.deltas(trained, deployed) == {}
    assert metrics.missing_deltas(trained, deployed) == {"m_delta": reason}
    assert metrics.read("m_delta", metrics.with_deltas(trained, deployed)).reason == reason


def test_an_item_without_a_difference_leaves_that_of_the_others() -> None:
    trained, deployed = {"m": [1.0, None, 3.0]}, {"m": [0.5, 1.0, "inf"]}
    assert metrics.deltas(trained, deployed) == {"m_delta": [0.5, None, None]}
    known = metrics.with_deltas(trained, deployed)
    assert metrics.read("m_delta[0]", known).value == 0.5
    assert metrics.read("m_delta[1]", known).reason == "m[1] is null, not a number, of the trained model"
    assert metrics.read("max(m_delta)", known).reason == "m[1] is null, not a number, of the trained model"


@pytest.mark.thorough
@given(st.dictionaries(st.sampled_from("abc"), ANYTHING), st.dictionaries(st.sampled_from("abc"), ANYTHING))
def test_whatever_an_evaluation_returns_gives_finite_numbers_or_reasons(trained: Any, deployed: Any) -> None:
    found = metrics.deltas(trained, deployed)
    missing = metrics.missing_deltas(trained, deployed)
    assert found.keys() | missing.keys() == {f"{name}_delta" for name in trained.keys() | deployed.keys()}
    assert not found.keys() & missing.keys()
    assert all(missing.values())
    numbers = [
        number for value in found.values() for number in (value if isinstance(value, list) else [value])
    ]
    assert all(number is None or math.isfinite(number) for number in numbers)
    known = metrics.with_deltas(trained, deployed)
    for name in (*known, "d"):
        for text in (name, f"{name}[0]", f"{name}[-1]", f"mean({name})", f"max({name})"):
            seen = metrics.read(text, known)
            assert (seen.value is None) is bool(seen.reason)
            assert seen.value is None or math.isfinite(float(seen.value))
