"""S14, S21: histograms, and what is left of them when they are shown with few buckets."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tests.unit.summaries.kinds.values import histograms
from trackside.summaries.event_files.values import Histogram
from trackside.summaries.kinds.arrays import histogram as histogram_of
from trackside.summaries.kinds.histogram import CHART_ROWS, HISTOGRAM, chart, rebin


@given(histograms())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_histogram_is_shown_with_few_buckets(histogram: Histogram) -> None:
    few = rebin(histogram, CHART_ROWS)
    assert len(few.left) == len(few.right) == len(few.counts) <= CHART_ROWS
    assert len(chart(histogram, 80)) == len(few.counts)


@pytest.mark.parametrize("buckets", [1, 2, 16, 99])
def test_few_buckets_hold_as_many_values_as_all_of_them(buckets: int) -> None:
    values = np.random.default_rng(3).normal(size=5_000)
    whole = histogram_of(values, 100)
    few = rebin(whole, buckets)
    assert len(few.counts) == buckets
    assert sum(few.counts) == pytest.approx(5_000)
    assert (few.left[0], few.right[-1]) == (values.min(), values.max())
    assert [few.minimum, few.maximum, few.total] == [whole.minimum, whole.maximum, whole.total]


def test_equal_buckets_lose_no_value_and_neighbours_are_joined_where_edges_are_not_finite() -> None:
    wide = Histogram([0.0, 1.0, 2.0], [1.0, 2.0, 10.0], [4.0, 4.0, 8.0])
    assert rebin(wide, 2).counts == pytest.approx([11.0, 5.0])
    assert rebin(wide, 3) is wide
    points = Histogram([0.0, 0.0, 1.0, 2.0], [0.0, 1.0, 2.0, 2.0], [5.0, 1.0, 1.0, 7.0])
    assert sum(rebin(points, 2).counts) == pytest.approx(14.0)
    same = Histogram([3.0] * 4, [3.0] * 4, [1.0, 2.0, 3.0, 4.0])
    assert rebin(same, 2) == Histogram([3.0, 3.0], [3.0, 3.0], [3.0, 7.0])
    open_ended = Histogram([-math.inf, 0.0, 1.0], [0.0, 1.0, math.inf], [1.0, 2.0, 3.0])
    assert rebin(open_ended, 2) == Histogram([-math.inf, 1.0], [1.0, math.inf], [3.0, 3.0])
    endless = Histogram([0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [math.inf, 1.0, math.inf])
    assert rebin(endless, 2) == Histogram([0.0, 2.0], [2.0, 3.0], [math.inf, math.inf])
    widest = Histogram([-1.7e308, 0.0, 1.0], [0.0, 1.0, 1.7e308], [1.0, 2.0, 3.0])
    assert rebin(widest, 2) == Histogram([-1.7e308, 1.0], [1.0, 1.7e308], [3.0, 3.0])


def test_a_large_histogram_has_a_small_one_in_its_body() -> None:
    values = np.random.default_rng(3).normal(size=20_000)
    packed = HISTOGRAM.pack(histogram_of(values, 5_000))
    assert packed.data is not None and packed.body["buckets"] == 5_000
    assert len(packed.body["chart"]["counts"]) == CHART_ROWS
    first = f"20,000 values in 5,000 buckets, {values.min():.5g} to {values.max():.5g}"
    assert HISTOGRAM.lines(packed.body, 80)[0] == first
