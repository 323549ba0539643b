import math
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from trackside.summaries import curves

NAN, INF = math.nan, math.inf
VALUES = st.lists(st.floats(-1e6, 1e6) | st.sampled_from([NAN, INF, -INF]), max_size=60)


def array(*values: float) -> NDArray[np.float64]:
    return np.array(values, dtype=np.float64)


def steps(*values: int) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def same(found: NDArray[Any], *expected: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_smoothing_is_of_finite_values_and_not_drawn_to_zero_at_first() -> None:
    same(curves.smoothed(array(1, 2, 4), 0.5), 1, (0.25 * 1 + 0.5 * 2) / 0.75, (0.125 + 0.5 + 2) / 0.875)
    found = curves.smoothed(array(NAN, 1, INF, 2, NAN, 4, -INF), 0.5)
    without = curves.smoothed(array(1, 2, 4), 0.5)
    same(found, NAN, without[0], INF, without[1], NAN, without[2], -INF)
    assert curves.smoothed(array(0.1, 0.1, NAN, 0.1), 0.9)[[0, 1, 3]].tolist() == [0.1, 0.1, 0.1]
    assert curves.smoothed(array(0.1, 0.7), 0).tolist() == [0.1, 0.7]
    assert curves.smoothed(array(), 0.9).tolist() == []
    same(curves.smoothed(array(5, 6), 1 - 1e-12), 5, 5.5)


@given(VALUES, st.floats(0, 0.999))
def test_smoothing_is_a_weighted_mean_of_the_finite_values_so_far(values: list[float], weight: float) -> None:
    finite: list[float] = []
    for value, found in zip(values, curves.smoothed(array(*values), weight), strict=True):
        if not math.isfinite(value):
            assert found == value or (math.isnan(value) and math.isnan(found))
            continue
        finite.append(value)
        weights = [weight ** (len(finite) - 1 - at) for at in range(len(finite))]
        mean = sum(w * v for w, v in zip(weights, finite, strict=True)) / sum(weights)
        assert found == pytest.approx(mean, rel=1e-6, abs=1e-3)


@pytest.mark.parametrize("weight", [1.0, -0.1, NAN, 2])
def test_a_weight_out_of_its_range_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="at least 0 and less than 1"):
        curves.smoothed(array(1), weight)


def test_the_best_so_far_is_of_finite_values() -> None:
    same(curves.best_so_far(array(NAN, 3, INF, 5, NAN, 1, -INF, 2), "min"), NAN, 3, 3, 3, 3, 1, 1, 1)
    same(curves.best_so_far(array(NAN, 3, INF, 5, NAN, 1, -INF, 2), "max"), NAN, 3, 3, 5, 5, 5, 5, 5)
    assert curves.best_so_far(array(), "max").tolist() == []


def test_an_axis_is_steps_seconds_or_milliseconds_and_a_range_includes_its_ends() -> None:
    times = steps(1_700_000_000_500, 1_700_000_001_500, 1_700_000_001_000)
    assert curves.positions_of(steps(2**60 + 1, 2**60 + 2, 2**60 + 3), times, "step").tolist()[0] == 2**60 + 1
    assert curves.positions_of(steps(1, 2, 3), times, "wall") is times
    same(curves.positions_of(steps(1, 2, 3), times, "relative"), 0, 1, 0.5)
    assert curves.positions_of(steps(), steps(), "relative").tolist() == []
    at = steps(-1, 0, 2**60, 2**60 + 1)
    assert curves.within(at).tolist() == [0, 1, 2, 3]
    assert curves.within(at, low=0, high=2**60).tolist() == [1, 2]
    assert curves.within(at, low=2**60 + 1).tolist() == [3]
    assert curves.within(at, high=-2).tolist() == []


RUNS = [(steps(0, 1, 2, 4), array(1, 2, NAN, 4)), (steps(0, 2, 4, 4), array(3, 5, 8, 99))]
RUNS.append((steps(4, 9), array(6, INF)))


def test_runs_are_aligned_by_step_and_each_position_says_of_how_many() -> None:
    found = curves.spread_by_step(RUNS)
    assert (found.positions.tolist(), found.count.tolist()) == ([0, 1, 2, 4], [2, 1, 1, 3])
    same(found.mean, 2, 2, 5, 6)
    same(found.std, 1, 0, 0, math.sqrt(8 / 3))
    same(found.least, 1, 2, 5, 4)
    same(found.greatest, 3, 2, 5, 8)
    found = curves.spread_by_step(RUNS, "all")
    assert (found.positions.tolist(), found.count.tolist(), found.mean.tolist()) == ([4], [3], [6.0])
    huge = [(steps(1), array(1.7e308)), (steps(1), array(1.5e308))]
    same(curves.spread_by_step(huge).mean, 1.6e308)


def test_at_a_time_a_run_has_its_last_value_until_it_ends_and_runs_without_values_have_no_spread() -> None:
    slow, short = (array(0, 10), array(1, 3)), (array(0, 4, 2), array(10, 30, 20))
    found = curves.spread_by_time([slow, short], points=6)
    assert found.positions.tolist() == [0, 2, 4, 6, 8, 10]
    assert found.count.tolist() == [2, 2, 2, 1, 1, 1]
    same(found.mean, 5.5, 10.5, 15.5, 1, 1, 3)
    assert curves.spread_by_time([slow, short], "all", 6).positions.tolist() == [0, 2, 4]
    for where in ("all", "some"):
        assert curves.spread_by_step([], where).mean.tolist() == []
        assert curves.spread_by_step([(steps(1), array(NAN))], where).least.tolist() == []
        assert curves.spread_by_time([(array(1), array(NAN))], where).count.tolist() == []


@given(st.integers(0, 2**32))
def test_the_spread_is_that_of_numpy(seed: int) -> None:
    random = Random(seed)
    runs = []
    for _ in range(random.randint(1, 5)):
        at = sorted(random.sample(range(20), random.randint(1, 12)))
        runs.append((steps(*at), array(*(random.gauss(5, 3) for _ in at))))
    found = curves.spread_by_step(runs)
    for index, step in enumerate(found.positions):
        values = [float(values[at.tolist().index(step)]) for at, values in runs if step in at]
        assert found.count[index] == len(values)
        assert found.mean[index] == pytest.approx(np.mean(values))
        assert found.std[index] == pytest.approx(np.std(values), abs=1e-9)
        assert (found.least[index], found.greatest[index]) == (min(values), max(values))
