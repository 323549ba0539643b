"""Curves of jobs and tags: by step, relative or wall time, whole or thinned."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.projections.database.postgres import Connection
from trackside.projections.summaries.errors import SummaryReadRefused, unknown_tag
from trackside.projections.summaries.jobs import read_job
from trackside.projections.summaries.long_curves import is_long, read_thinned
from trackside.projections.summaries.points import PointColumns, PointRange, read_points
from trackside.projections.summaries.series import SeriesExtent, read_series
from trackside.projections.summaries.tags import read_tags
from trackside.summaries.curves import CurveAxis, positions_of
from trackside.summaries.kinds.scalar import SCALAR
from trackside.summaries.thinning import thin

CURVE_LIMIT = SCALAR.page_size
"""How many points a curve is thinned to unless another number is asked for."""
MAX_CURVES = 1_000
"""How many curves one read returns."""
MAX_POINTS = 200_000
"""How many points one read returns, all curves together."""
BATCH_POINTS = 500_000
"""About how many points are in memory at once; a longer series is read alone."""


@dataclass(frozen=True, slots=True)
class ScalarQuery:
    """Which curves are read: those of each job and tag; all tags if there are none.

    With `superseded` each attempt or session has its own curve of all its points; without, there is one of
    those that count. `limit` is how many points a curve has about, None for all of them; `most` is how many
    points all curves may have together, None for no limit, also of the number of curves.
    """

    jobs: Sequence[str]
    tags: Sequence[str] | None = None
    within: PointRange = field(default_factory=PointRange)
    axis: CurveAxis = "step"
    limit: int | None = CURVE_LIMIT
    superseded: bool = False
    most: int | None = MAX_POINTS


@dataclass(frozen=True, slots=True)
class CurveSource:
    """The series of a curve, by attempt; `attempt` is None where the curve is of all that count."""

    job_id: str
    tag: str
    attempt: int | None
    series: tuple[SeriesExtent, ...]

    @property
    def points(self) -> int:
        """How many points its series have, those too that don't count."""
        return sum(each.points for each in self.series)

    @property
    def first_ms(self) -> int:
        """When the first of its points was taken, ms since 1970."""
        return min(each.first_ms for each in self.series)


@dataclass(frozen=True, slots=True)
class ScalarCurve:
    """A curve: its points, in the order of their `positions` on the axis, and how many there are unthinned.

    `attempt` is None for a curve of all points that count. Positions are steps, seconds since the first
    point of the curve, or ms since 1970.
    """

    job_id: str
    tag: str
    attempt: int | None
    positions: NDArray[Any]
    points: PointColumns
    total: int


async def read_scalars(connection: Connection, query: ScalarQuery) -> list[ScalarCurve]:
    """Returns the curves of jobs and tags, by job and tag in the order of the query.

    A job that lacks a tag has no curve of it. Raises SummaryReadRefused for an unknown job, a tag that none
    of the jobs has, and for too many curves or points.
    """
    return await read_curves(connection, await find_curves(connection, query), query)


async def find_curves(connection: Connection, query: ScalarQuery) -> list[CurveSource]:
    """Returns the curves of a query, with no points yet; raises SummaryReadRefused as read_scalars does."""
    check_query(query)
    series = await read_series(connection, query.jobs, SCALAR.name, query.tags)
    await _check_known(connection, query, series)
    found = list(_sources(series, query))
    if query.most is not None and len(found) > MAX_CURVES:
        hint = f"expected at most {MAX_CURVES:,}: ask for fewer jobs or tags"
        raise SummaryReadRefused("too_many_values", "tag", f"{len(found):,} curves", hint)
    return found


async def read_curves(
    connection: Connection, sources: Sequence[CurveSource], query: ScalarQuery
) -> list[ScalarCurve]:
    """Returns the curves of sources. Raises SummaryReadRefused for too many points that aren't thinned."""
    found: list[ScalarCurve] = []
    for batch in batches(sources):
        columns = await read_columns(connection, batch, query)
        found += [make_curve(source, each, query) for source, each in zip(batch, columns, strict=True)]
        check_total(found, query)
    return found


async def read_columns(
    connection: Connection, batch: Sequence[CurveSource], query: ScalarQuery
) -> list[PointColumns]:
    """Returns the points of a batch in the range of the query, thinned only if one curve has very many."""
    if len(batch) == 1 and query.limit is not None and is_long(batch[0].series, query.within):
        points = await read_thinned(
            connection, batch[0].series, query.within, query.limit, superseded=query.superseded
        )
        return [points]
    series = [source.series for source in batch]
    return await read_points(connection, series, query.within, superseded=query.superseded)


def check_total(curves: Sequence[ScalarCurve], query: ScalarQuery) -> None:
    """Raises SummaryReadRefused for more points than all curves may have together."""
    total = sum(len(each.positions) for each in curves)
    if query.most is not None and total > query.most:
        hint = f"expected at most {query.most:,}: ask for fewer curves, a range of steps, or a lower limit"
        raise SummaryReadRefused("too_many_values", "limit", f"{total:,} points", hint)


def make_curve(source: CurveSource, points: PointColumns, query: ScalarQuery) -> ScalarCurve:
    """Returns the curve of points that are sorted by step, thinned on the axis of the query."""
    positions, total = _positions(source, points, query.axis), len(points.steps) + points.left_out
    if query.axis != "step":
        order = np.argsort(positions, kind="stable")
        positions, points = positions[order], points.at(order)
    kept = thin(positions, points.values, query.limit)
    shown = points if len(kept) == len(positions) else points.at(kept)
    return ScalarCurve(source.job_id, source.tag, source.attempt, positions[kept], shown, total)


def check_query(query: ScalarQuery) -> None:
    """Raises SummaryReadRefused for a query with no job, or with numbers out of their limits."""
    if not query.jobs:
        raise SummaryReadRefused("bad_query", "job", "no job is named; expected at least one")
    if query.limit is not None and not 1 <= query.limit <= MAX_POINTS:
        expected = f"expected 1 to {MAX_POINTS:,}"
        raise SummaryReadRefused("bad_query", "limit", f"a limit of {query.limit} points; {expected}")


def points_within(curve: PointColumns, within: PointRange) -> PointColumns:
    """Returns the points of a range."""
    if within.is_everything:
        return curve
    steps, times = curve.steps, curve.times_ms
    inside = (steps >= within.first_step) & (steps <= within.last_step)
    inside &= (times >= within.first_ms) & (times <= within.last_ms)
    return curve.at(np.flatnonzero(inside))


def _positions(source: CurveSource, points: PointColumns, axis: CurveAxis) -> NDArray[Any]:
    if axis == "relative":  # of the curve, not of the range
        return (points.times_ms - source.first_ms) / 1_000
    return positions_of(points.steps, points.times_ms, axis)


def _sources(series: Sequence[SeriesExtent], query: ScalarQuery) -> Iterator[CurveSource]:
    found: dict[tuple[str, str], list[CurveSource]] = {}
    for (job_id, tag), group in groupby(series, lambda each: (each.job_id, each.tag)):
        attempts = tuple(group)
        if query.superseded:
            found[job_id, tag] = [CurveSource(job_id, tag, each.attempt, (each,)) for each in attempts]
        else:
            counted = tuple(each for each in attempts if each.counts)
            found[job_id, tag] = [CurveSource(job_id, tag, None, counted)] if counted else []
    tags = query.tags if query.tags is not None else dict.fromkeys(each.tag for each in series)
    for job_id in dict.fromkeys(query.jobs):
        for tag in dict.fromkeys(tags):
            yield from found.get((job_id, tag), [])


def batches(sources: Sequence[CurveSource]) -> Iterator[list[CurveSource]]:
    """Yields curves of about BATCH_POINTS points together, in their order; a longer one alone."""
    batch: list[CurveSource] = []
    points = 0
    for source in sources:
        if batch and points + source.points > BATCH_POINTS:
            yield batch
            batch, points = [], 0
        batch.append(source)
        points += source.points
    if batch:
        yield batch


async def _check_known(connection: Connection, query: ScalarQuery, series: Sequence[SeriesExtent]) -> None:
    have = {each.job_id for each in series}
    jobs = {job: await read_job(connection, job) for job in dict.fromkeys(query.jobs) if job not in have}
    if query.tags is None or (jobs and not have and not any(job.points for job in jobs.values())):
        return  # nothing of them is indexed so far
    for tag in dict.fromkeys(query.tags):
        if not any(each.tag == tag for each in series):
            job = query.jobs[0]
            known = [each.tag for each in await read_tags(connection, job, SCALAR.name)]
            raise unknown_tag(job, tag, known)
