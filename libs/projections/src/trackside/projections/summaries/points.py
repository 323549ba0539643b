"""Reads points as columns: rows of COPY's binary format, all equally long, become an array of numpy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trackside.projections.database.postgres import Connection
from trackside.projections.reading.bulk_reads import copy_binary
from trackside.projections.summaries.series import SeriesExtent

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
_HEADER_BYTES, _TRAILER_BYTES = 19, 2
# A row has the number of its columns, and before each value its length.
_ROW = np.dtype(
    [
        ("columns", ">i2"),
        ("place_bytes", ">i4"),
        ("place", ">i4"),
        ("step_bytes", ">i4"),
        ("step", ">i8"),
        ("time_bytes", ">i4"),
        ("time_ms", ">i8"),
        ("value_bytes", ">i4"),
        ("value", ">f8"),
    ]
)


@dataclass(frozen=True, slots=True)
class PointRange:
    """Which points are read: steps and times in ms since 1970, each from the first to the last one given."""

    first_step: int = INT64_MIN
    last_step: int = INT64_MAX
    first_ms: int = INT64_MIN
    last_ms: int = INT64_MAX

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self == PointRange()


@dataclass(frozen=True, slots=True)
class PointColumns:
    """Points as equally long arrays, by step; times are ms since 1970, what isn't known to be Inf is NaN.

    `left_out` counts the points that were thinned out while they were read, since there were too many.
    """

    steps: NDArray[np.int64]
    times_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    left_out: int = 0

    @property
    def nbytes(self) -> int:
        """The memory that the arrays take, in bytes."""
        return self.steps.nbytes + self.times_ms.nbytes + self.values.nbytes

    def at(self, indexes: NDArray[np.int64]) -> "PointColumns":
        """Returns some of the points."""
        return PointColumns(self.steps[indexes], self.times_ms[indexes], self.values[indexes])


NO_POINTS = PointColumns(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float64))


async def read_points(
    connection: Connection, curves: Sequence[Sequence[SeriesExtent]], within: PointRange, *, superseded: bool
) -> list[PointColumns]:
    """Returns the points of curves, each of one or more series, within a range, by step and attempt.

    Points that don't count any more are left out unless `superseded`.
    """
    wanted = []
    for place, curve in enumerate(curves):
        for each in curve:
            last = within.last_step
            if not superseded and each.counted_below is not None:
                last = min(last, each.counted_below - 1)
            if each.first_step <= last and each.last_step >= within.first_step:
                wanted.append(f"({place}::integer, '{each.series}'::bigint, '{last}'::bigint)")
    if not wanted:
        return [NO_POINTS] * len(curves)
    return _split(_decode(await copy_binary(connection, _query(wanted, within))), len(curves))


def _query(wanted: Sequence[str], within: PointRange) -> str:
    """Returns the query; numbers are ours, or were parsed as integers."""
    times = ""
    if within.first_ms != INT64_MIN or within.last_ms != INT64_MAX:
        times = f"AND wall_time_ms BETWEEN '{within.first_ms}'::bigint AND '{within.last_ms}'::bigint"
    return f"""
        SELECT
            wanted.place, points.step, points.wall_time_ms,
            coalesce(points.value, CASE points.non_finite WHEN 2 THEN 'Infinity'::double precision
                WHEN 3 THEN '-Infinity'::double precision ELSE 'NaN'::double precision END)
        FROM (VALUES {", ".join(wanted)}) AS wanted (place, series, last_step)
        CROSS JOIN LATERAL (
            SELECT step, wall_time_ms, value, non_finite FROM metric_points
            WHERE metric_points.series = wanted.series AND step >= '{within.first_step}'::bigint
                AND step <= wanted.last_step {times}
        ) AS points
    """  # noqa: S608


def _decode(content: bytes) -> NDArray[np.void]:
    count = (len(content) - _HEADER_BYTES - _TRAILER_BYTES) // _ROW.itemsize
    return np.frombuffer(content, _ROW, count, _HEADER_BYTES)


def _split(rows: NDArray[np.void], curves: int) -> list[PointColumns]:
    """Returns the points of each curve by step; of equal steps those of the first attempt are first."""
    places, steps = rows["place"].astype(np.int64), rows["step"].astype(np.int64)
    found = PointColumns(steps, rows["time_ms"].astype(np.int64), rows["value"].astype(np.float64))
    if curves == 1 and bool((steps[1:] >= steps[:-1]).all()):
        return [found]
    order = np.lexsort((steps, places))
    ends = np.searchsorted(places[order], np.arange(curves + 1), side="left")
    return [found.at(order[ends[at] : ends[at + 1]]) for at in range(curves)]
