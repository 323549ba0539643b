"""Histograms of arrays, in the buckets that TensorBoard's writers use."""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.sdk.summaries.arrays import array_of
from trackside.summaries.event_files.values import Histogram

SMALLEST_EDGE, LARGEST_EDGE, GROWTH = 1e-12, 1e20, 1.1
"""TensorFlow's buckets: each edge is 1.1 times the one before, on both sides of 0 (histogram.cc)."""


@cache
def tensorflow_edges() -> NDArray[np.float64]:
    """Returns the edges of TensorFlow's buckets, rising: each finite number is in one of them."""
    edges = []
    edge = SMALLEST_EDGE
    while edge < LARGEST_EDGE:  # one by one, as TensorFlow does: the last bits are the same
        edges.append(edge)
        edge *= GROWTH
    positive = np.array([*edges, sys.float_info.max])
    return np.concatenate([-positive[::-1], [0.0], positive])


def histogram_of(value: Any, bins: str | int | Sequence[float], max_bins: int | None) -> Histogram:
    """Returns the histogram of the finite values of an array, without the empty buckets at both ends.

    `bins` are `tensorflow` or what numpy.histogram takes; with `max_bins` neighbours are joined until there
    are about so many. Raises ValueError for an array without elements.
    """
    values = array_of(value).astype(np.float64).reshape(-1)
    if values.size == 0:
        raise ValueError("add_histogram: expected at least one value, got none")
    finite = values[np.isfinite(values)]
    beyond = {
        "nan": int(np.isnan(values).sum()),
        "positive_inf": int(np.isposinf(values).sum()),
        "negative_inf": int(np.isneginf(values).sum()),
    }
    if finite.size == 0:
        return Histogram([], [], [], **beyond)
    edges_or_rule = tensorflow_edges() if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, edges = np.histogram(finite, bins=edges_or_rule)
    if max_bins is not None and len(counts) > max_bins:
        counts, edges = _joined(counts, edges, len(counts) // max_bins)
    filled = np.flatnonzero(counts)
    held = slice(filled[0], filled[-1] + 1) if filled.size else slice(0, 0)
    return Histogram(
        left=edges[:-1][held].tolist(),
        right=edges[1:][held].tolist(),
        counts=counts[held].tolist(),
        minimum=float(finite.min()),
        maximum=float(finite.max()),
        total=float(finite.sum()),
        sum_squares=float(finite @ finite),
        **beyond,
    )


def raw_histogram(least: Any, greatest: Any, totals: tuple[Any, Any], limits: Any, counts: Any) -> Histogram:
    """Returns a histogram that is counted already: limits are right edges, `totals` sum and sum of squares.

    Raises ValueError where limits and counts are not equally many.
    """
    right, numbers = array_of(limits).astype(float).tolist(), array_of(counts).astype(float).tolist()
    if len(right) != len(numbers):
        raise ValueError(f"add_histogram_raw: {len(numbers)} bucket_counts have {len(right)} bucket_limits")
    minimum, maximum = float(least), float(greatest)
    left = [min(minimum, right[0]), *right[:-1]] if right else []
    return Histogram(left, right, numbers, minimum, maximum, float(totals[0]), sum_squares=float(totals[1]))


def _joined(counts: NDArray[Any], edges: NDArray[Any], together: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns the histogram with so many neighbours in one bucket, the last one perhaps of fewer."""
    starts = np.arange(0, len(counts), together)
    return np.add.reduceat(counts, starts), np.append(edges[starts], edges[-1])
