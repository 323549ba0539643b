"""Reads a curve of very many points in parts, so that memory doesn't grow with its length."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from trackside.projections.database.postgres import Connection
from trackside.projections.summaries.points import NO_POINTS, PointColumns, PointRange, read_points
from trackside.projections.summaries.series import SeriesExtent
from trackside.summaries.thinning import POINTS_PER_BUCKET, thin

LONG_POINTS = 1_000_000
"""A curve of more points is read in parts if it is thinned."""
PART_POINTS = 250_000
"""About how many points a part has."""


def is_long(series: Sequence[SeriesExtent], within: PointRange) -> bool:
    """Returns whether a range of a curve may have more than LONG_POINTS points."""
    most = 0
    for each in series:
        width = min(within.last_step, each.last_step) - max(within.first_step, each.first_step) + 1
        most += max(0, min(each.points, width))  # a step is once in a series
    return most > LONG_POINTS


async def read_thinned(
    connection: Connection,
    series: Sequence[SeriesExtent],
    within: PointRange,
    limit: int,
    *,
    superseded: bool,
) -> PointColumns:
    """Returns the points of one curve within a range, thinned by step as `thinning.thin` does.

    The buckets are those of the steps that the series have within the range.
    """
    low = max(within.first_step, min(each.first_step for each in series))
    high = min(within.last_step, max(_last_step(each, superseded) for each in series))
    if low > high:
        return NO_POINTS
    buckets = max(1, limit // POINTS_PER_BUCKET)
    edges = [low, *(-(-(high - low) * at // buckets) + low for at in range(1, buckets)), high + 1]
    parts = -(-sum(each.points for each in series) // PART_POINTS)
    wide = max(1, buckets // parts)  # how many buckets a part has
    found, total = [], 0
    for at in range(0, buckets, wide):
        bounds = edges[at : at + wide + 1]
        if bounds[0] == bounds[-1]:
            continue
        part = replace(within, first_step=bounds[0], last_step=bounds[-1] - 1)
        (points,) = await read_points(connection, [series], part, superseded=superseded)
        total += len(points.steps)
        found.append(_thinned(points, bounds))
    kept = PointColumns(
        np.concatenate([each.steps for each in found]),
        np.concatenate([each.times_ms for each in found]),
        np.concatenate([each.values for each in found]),
    )
    return replace(kept, left_out=total - len(kept.steps))


def _last_step(series: SeriesExtent, superseded: bool) -> int:
    if superseded or series.counted_below is None:
        return series.last_step
    return min(series.last_step, series.counted_below - 1)


def _thinned(points: PointColumns, bounds: Sequence[int]) -> PointColumns:
    """Returns the first, last, least and greatest point of each bucket, and what is not finite."""
    inner = np.searchsorted(points.steps, np.array(bounds[1:-1], dtype=np.int64), side="left")
    cuts = [0, *(int(at) for at in inner), len(points.steps)]
    kept = [
        low + thin(points.steps[low:high], points.values[low:high], POINTS_PER_BUCKET)
        for low, high in pairwise(cuts)
        if low < high
    ]
    return points.at(np.concatenate(kept)) if kept else NO_POINTS
