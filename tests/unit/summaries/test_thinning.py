"""Thinning keeps what a chart shows (S16): ends and extremes of every bucket, and what is not finite."""

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from trackside.summaries import thinning
from trackside.summaries.thinning import thin

INT64 = 2**63
ODD = [math.nan, math.inf, -math.inf, 5e-324, 0.0, -0.0, 1.7e308, -1.7e308]
LIMITS = st.integers(1, 60)
Points = list[tuple[int, float]]


@st.composite
def points(draw: st.DrawFn) -> Points:
    """Up to 300 points: steps near or far from each other, also over 2**53; some values not finite."""
    low = draw(st.sampled_from([0, -7, 2**53 - 3, 2**62, -INT64]))
    width = draw(st.sampled_from([1, 10, 97, 1_000, 2**53 + 1, 2**63 - 1]))
    count, odd = draw(st.integers(0, 300)), draw(st.sampled_from([0.0, 0.01, 0.3, 1.0]))
    random = Random(draw(st.integers(0, 2**32)))
    steps = sorted(min(low + random.randint(0, width), INT64 - 1) for _ in range(count))
    return [
        (step, random.choice(ODD) if random.random() < odd else random.gauss(0, random.choice([1, 1e9])))
        for step in steps
    ]


def thinned(given: Points, limit: int | None) -> list[int]:
    steps = np.array([step for step, _ in given], dtype=np.int64)
    values = np.array([value for _, value in given], dtype=np.float64)
    return [int(at) for at in thin(steps, values, limit)]


def buckets_of(given: Points, limit: int) -> Iterator[list[int]]:
    """A second reader: the indexes of each bucket's points, by division of integers."""
    count = max(1, limit // 4)
    low, high = given[0][0], given[-1][0]
    for bucket in range(count):
        of = [min((step - low) * count // max(1, high - low), count - 1) for step, _ in given]
        if found := [at for at, number in enumerate(of) if number == bucket]:
            yield found


@given(points(), LIMITS)
def test_first_last_least_and_greatest_of_every_bucket_stay(given: Points, limit: int) -> None:
    kept = thinned(given, limit)
    assert kept == sorted(set(kept))
    if len(given) <= limit:
        assert kept == list(range(len(given)))
        return
    for bucket in buckets_of(given, limit):
        stayed = [at for at in bucket if at in kept]
        assert stayed[0] == bucket[0] and stayed[-1] == bucket[-1]
        finite = [given[at][1] for at in bucket if math.isfinite(given[at][1])]
        shown = [given[at][1] for at in stayed if math.isfinite(given[at][1])]
        if finite:
            assert (min(shown), max(shown)) == (min(finite), max(finite))


@given(points(), LIMITS)
def test_values_that_are_not_finite_stay_in_their_buckets_beyond_a_limit(given: Points, limit: int) -> None:
    kept = thinned(given, limit)
    for bucket in buckets_of(given, limit) if given else ():
        for is_kind in (math.isnan, math.inf.__eq__, (-math.inf).__eq__):
            of_kind = [at for at in bucket if is_kind(given[at][1])]
            assert not of_kind or of_kind[0] in kept
    most = max(4, limit)
    assert len(kept) <= most + 3 * max(1, limit // 4)
    if all(math.isfinite(value) for _, value in given):
        assert len(kept) <= most
    assert thinned(given, None) == list(range(len(given))), "without a limit all stay"


@given(points().filter(bool), LIMITS)
def test_times_in_seconds_are_steps_as_well(given: Points, limit: int) -> None:
    values = np.array([value for _, value in given])
    kept = thin(np.array([step / 1000 for step, _ in given]), values, limit).tolist()
    assert (kept[0], kept[-1]) == (0, len(given) - 1)
    assert np.isnan(values).any() == np.isnan(values[kept]).any()
    finite = values[np.isfinite(values)]
    if len(finite):
        shown = values[kept][np.isfinite(values[kept])]
        assert (shown.min(), shown.max()) == (finite.min(), finite.max())


def test_a_spike_among_a_million_points_and_steps_that_floats_do_not_tell_apart_are_kept() -> None:
    values = np.zeros(1_000_000)
    values[123_457], values[600_001] = 7.0, math.nan
    kept = thin(np.arange(1_000_000, dtype=np.int64), values, 400).tolist()
    assert {123_457, 600_001, 0, 999_999} <= set(kept) and len(kept) <= 401
    steps = 2**62 + np.arange(8, dtype=np.int64)  # to a float, all are one step
    assert thin(steps, np.array([0.0, 9, 1, 2, 3, 4, -9, 5]), 4).tolist() == [0, 1, 6, 7]
    long = np.append(steps, 2**62 + 15)
    kept = thin(long, np.array([0, 9.0, 1, 2, 3, 4, -9, 5, 1]), 8).tolist()
    assert kept == [0, 1, 6, 7, 8], "two buckets of 8 steps each"
    steps = np.repeat([-9_223_372_036_854_776.0, -9_223_372_036_854_774.0], 20)  # neighbours as floats
    kept = thin(steps, np.arange(40.0), 36).tolist()
    assert kept == [0, 19, 20, 39]


@pytest.mark.parametrize(
    ("steps", "values", "limit", "text"),
    [
        (np.array([1, 2]), np.array([1.0, 2.0]), 0, "at least 1, not 0"),
        (np.array([1, 2]), np.array([1.0]), 9, "are not one curve"),
        (np.array([2, 1]), np.array([1.0, 2.0]), 1, "must not fall"),
        (np.array([1.0, math.nan, 2.0]), np.array([1.0, 2.0, 3.0]), 1, "must be finite"),
        (np.array([1.0, math.inf]), np.array([1.0, 2.0]), 1, "must be finite"),
    ],
)
def test_what_is_no_curve_is_refused(
    steps: NDArray[Any], values: NDArray[np.float64], limit: int, text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        thin(steps, values, limit)


@pytest.mark.thorough
@given(points(), LIMITS)
def test_large_buckets_are_thinned_as_small_ones(given: Points, limit: int) -> None:
    together = thinned(given, limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thinning, "LARGE_BUCKET", 0)
        assert thinned(given, limit) == together
