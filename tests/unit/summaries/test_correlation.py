"""Importance as the absolute correlation of Pearson (S23), and what it refuses."""

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.summaries.correlation import CorrelationError, correlations, pearson


def test_a_correlation_computed_by_hand() -> None:
    """S23. Deviations -1 0 1 and -1 1 0: the products sum to 1, the squares to 2 each."""
    assert pearson([1, 2, 3], [4, 6, 5]) == pytest.approx(0.5)
    assert pearson([1, 2, 3], [6, 4, 5]) == pytest.approx(-0.5)
    assert (pearson([1, 2, 3], [2, 4, 6]), pearson([1, 2, 3], [3, 2, 1])) == pytest.approx((1, -1))
    assert pearson([-1.7e308, 0, 1.7e308], [1, 2, 3]) == pytest.approx(1)
    assert pearson([0, 5e-324, 1e-323], [3, 2, 1]) == pytest.approx(-1)


@given(st.integers(0, 2**32), st.integers(3, 50), st.sampled_from([1e-200, 1.0, 1e9]))
def test_it_is_the_one_of_numpy(seed: int, count: int, scale: float) -> None:
    random = Random(seed)
    xs = [random.gauss(3, 1) for _ in range(count)]
    ys = [x * random.choice([1, -0.2, 0]) + random.gauss(0, 1) for x in xs]
    found = pearson([x * scale for x in xs], ys)
    assert found == pytest.approx(float(np.corrcoef(xs, ys)[0, 1]), abs=1e-9) and -1 <= found <= 1


@pytest.mark.parametrize(
    ("xs", "code"),
    [
        ([], "too_few"),
        ([1.0, 2.0], "too_few"),
        ([1.0, 2.0, math.nan], "not_finite"),
        ([1.0, 2.0, math.inf], "not_finite"),
        ([1.0, 2.0, 10**400], "not_finite"),
        ([2.0, 2.0, 2.0], "constant"),
    ],
)
def test_what_has_no_correlation_is_refused(xs: list[float], code: str) -> None:
    """S23: at most two samples, NaN, and what never changes."""
    target = [float(at) for at in range(len(xs))]
    for given_xs, given_ys in ((xs, target), (target, xs)):
        with pytest.raises(CorrelationError) as refused:
            pearson(given_xs, given_ys)
        assert refused.value.code == code
    with pytest.raises(CorrelationError) as refused:
        correlations({"x": target}, xs)
    assert refused.value.code == code


def test_parameters_without_a_correlation_are_last_and_say_why() -> None:
    parameters: dict[str, list[Any]] = {"kind": ["a", "b", "a"], "flag": [True, False, True]}
    parameters.update(mixed=[1, "1", None], fixed=[5, 5, 5], broken=[1.0, math.nan, 2.0])
    parameters.update(weak=[1, 3, 2], strong=[3.0, 2, 1])
    found = correlations(parameters, [1.0, 2.0, 3.0])
    assert [one.parameter for one in found[:2]] == ["strong", "weak"]
    assert [one.correlation for one in found[:2]] == pytest.approx([-1, 0.5])
    assert [one.importance for one in found[:2]] == pytest.approx([1, 0.5])
    categorical = dict.fromkeys(("kind", "flag", "mixed"), "categorical")
    skipped = {one.parameter: one.skipped for one in found[2:]}
    assert skipped == {**categorical, "fixed": "constant", "broken": "not_finite"}
    assert all(one.correlation is None and one.importance == 0 for one in found[2:])
