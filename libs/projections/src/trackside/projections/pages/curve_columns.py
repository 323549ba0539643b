"""Curves of metrics as columns for charts, thinned to about as many points as a chart has pixels."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from trackside.projections.database.postgres import Connection
from trackside.projections.reading.columns import ChartColumns, ColumnKind, read_arrays
from trackside.projections.reading.read_pool import SnapshotModels
from trackside.projections.summaries.points import PointColumns, PointRange, read_points
from trackside.projections.summaries.series import SeriesExtent, read_series
from trackside.summaries.kinds.scalar import SCALAR
from trackside.summaries.thinning import thin

CHART_POINTS = 2_000
EVERYTHING = PointRange()
EXACT_POINTS = 200_000
"""How many points are read of a curve; of one with more in the range, parts are read."""
SAMPLED_PARTS = 1_000
_VALUE = (
    "coalesce(points.value, CASE points.non_finite WHEN 2 THEN 'Infinity'::double precision "
    "WHEN 3 THEN '-Infinity'::double precision ELSE 'NaN'::double precision END)"
)


async def curve_columns(
    models: SnapshotModels,
    tasks: Sequence[str],
    tag: str,
    points: int = CHART_POINTS,
    within: PointRange = EVERYTHING,
) -> dict[str, ChartColumns]:
    """Returns the curve of a tag for each task, or job, that has it: the points of its attempts that count.

    Columns: `step` and `time_ms` (ms since 1970), int64, and `value`, NaN where none is known. Thinned by
    step to about `points`: first, last, least and greatest of each bucket stay, and what is not finite. If
    the range has more than 200,000 points, only some are read: the curve is `sampled`, `total` an estimate.
    """
    found: dict[str, list[SeriesExtent]] = {}
    for each in await read_series(models.connection, tasks, SCALAR.name, [tag]):
        if each.counts:
            found.setdefault(each.job_id, []).append(each)
    curves: dict[str, ChartColumns] = {}
    short = {task: series for task, series in found.items() if _points_within(series, within) <= EXACT_POINTS}
    for task, series in found.items():
        if task not in short:
            curves[task] = await _sampled(models.connection, series, points, within)
    for batch in _batches(short):
        columns = await read_points(
            models.connection, [short[task] for task in batch], within, superseded=False
        )
        for task, whole in zip(batch, columns, strict=True):
            curves[task] = _thinned(whole, points, len(whole.steps), sampled=False)
    return {task: curves[task] for task in dict.fromkeys(tasks) if task in curves}


async def _sampled(
    connection: Connection, series: Sequence[SeriesExtent], points: int, within: PointRange
) -> ChartColumns:
    """Reads the first points of each of many equally wide parts of the range, and the last point."""
    parts = []
    for each in series:
        low, high = _range(each, within)
        if low <= high:
            wide = -(-(high - low + 1) // SAMPLED_PARTS)
            parts.append(f"({each.series}::bigint, {low}::bigint, {high}::bigint, {wide}::bigint)")
    selected: dict[str, tuple[str, ColumnKind]] = {
        "step": ("points.step", "i8"),
        "time_ms": ("points.wall_time_ms", "i8"),
        "value": (_VALUE, "f8"),
    }
    source = f"""
        (VALUES {", ".join(parts)}) AS ranges (series, low, high, wide)
        CROSS JOIN LATERAL (
            SELECT generate_series(low, high, wide) AS first UNION SELECT high
        ) AS parts
        CROSS JOIN LATERAL (
            SELECT step, wall_time_ms, value, non_finite FROM metric_points
            WHERE metric_points.series = ranges.series AND step >= parts.first
                AND step < parts.first + wide AND step <= high
            ORDER BY step
            LIMIT {EXACT_POINTS // SAMPLED_PARTS // len(parts)}
        ) AS points
    """  # noqa: S608 - numbers
    arrays = await read_arrays(connection, selected, source)
    steps, first = np.unique(arrays["step"], return_index=True)
    found = PointColumns(steps, arrays["time_ms"][first], arrays["value"][first])
    return _thinned(found, points, _points_within(series, within), sampled=True)


def _range(series: SeriesExtent, within: PointRange) -> tuple[int, int]:
    """Returns the first and last step of the points of a series that count and are in the range."""
    last = series.last_step if series.counted_below is None else series.counted_below - 1
    return max(within.first_step, series.first_step), min(within.last_step, series.last_step, last)


def _points_within(series: Iterable[SeriesExtent], within: PointRange) -> int:
    """Estimates how many points series have in a range: as if their steps were evenly spread."""
    total = 0
    for each in series:
        low, high = _range(each, within)
        if low <= high:
            share = (high - low + 1) / (each.last_step - each.first_step + 1)
            total += max(1, round(each.points * share))
    return total


def _thinned(found: PointColumns, points: int, total: int, *, sampled: bool) -> ChartColumns:
    kept = found.at(thin(found.steps, found.values, points))
    return ChartColumns(
        {"step": kept.steps, "time_ms": kept.times_ms, "value": kept.values}, {}, total, sampled
    )


def _batches(series: Mapping[str, Sequence[SeriesExtent]]) -> Iterable[list[str]]:
    """Yields tasks whose points are read together: about as many as one curve may have."""
    batch: list[str] = []
    size = 0
    for task, each in series.items():
        more = sum(one.points for one in each)
        if batch and size + more > EXACT_POINTS:
            yield batch
            batch, size = [], 0
        batch.append(task)
        size += more
    if batch:
        yield batch
