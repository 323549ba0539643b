"""The command `summaries scalars`: curves of several jobs and tags, as a chart, CSV, JSON or a picture."""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from trackside.cli.commands.summaries.reading import is_directory, read, some
from trackside.cli.render import curve_charts, screen
from trackside.cli.render.picture_files import new_picture_form, write_new_picture
from trackside.cli.runtime.failures import BadUsage
from trackside.eventlog.clock import now_ms
from trackside.projections.database.postgres import Connection
from trackside.projections.summaries.jobs import SummaryJobRow, read_job
from trackside.projections.summaries.points import INT64_MAX, INT64_MIN, PointRange
from trackside.projections.summaries.scalars import (
    CurveSource,
    ScalarCurve,
    ScalarQuery,
    find_curves,
    read_curves,
)
from trackside.projections.summaries.tags import JobTag, read_tags
from trackside.replay.history.point_in_time import parse_point_in_time
from trackside.summaries.curves import (
    CurveAxis,
    RunSpread,
    best_so_far,
    smoothed,
    spread_by_step,
    spread_by_time,
)
from trackside.summaries.kinds.bodies import number, numbers
from trackside.summaries.kinds.scalar import SCALAR
from trackside.summaries.pictures import PictureOptions, picture
from trackside.summaries.plotting import ChartCurve
from trackside.summaries.thinning import thin

MAX_POINTS = 2_000_000
"""How many points are read where they are not thinned in between."""
OutputForm: TypeAlias = Literal["chart", "csv", "json"]


@dataclass(frozen=True, slots=True)
class CurveChoice:
    """Which curves are read; `low` and `high` are texts of the axis. `limit` is None for all points."""

    jobs: Sequence[str]
    tags: Sequence[str]
    axis: CurveAxis
    low: str
    high: str
    limit: int | None
    superseded: bool


@dataclass(frozen=True, slots=True)
class CurveChange:
    """What is computed from the curves: the weight of smoothing, the best so far, the mean over jobs."""

    smooth: float = 0.0
    best: Literal["min", "max"] | None = None
    mean: bool = False

    @property
    def is_none(self) -> bool:
        """Whether the curves stay as they are."""
        return self == CurveChange()


@dataclass(frozen=True, slots=True)
class CurveOutput:
    """How curves are shown: in which form, on a logarithmic axis, and in which file as a picture."""

    form: OutputForm
    log_y: bool
    picture: Path | None


def scalars(choice: CurveChoice, change: CurveChange, output: CurveOutput) -> None:
    """Prints the curves of jobs and tags."""
    form = None if output.picture is None else new_picture_form(output.picture)

    async def found(connection: Connection) -> tuple[list[ScalarCurve], dict[str, SummaryJobRow]]:
        jobs = {job: await read_job(connection, job) for job in dict.fromkeys(choice.jobs)}
        tags = await _tags(connection, choice, output.form)
        return await _curves(connection, replace(choice, tags=tags), change), jobs

    curves, jobs = read(found)
    spreads = _spreads(curves, choice.axis) if change.mean else {}
    if output.form == "json":
        screen.emit(_json(curves, spreads, choice.axis))
    elif output.form == "csv":
        _write_csv(curves, spreads)
    else:
        drawn = _spread_curves(spreads) if change.mean else _named(curves, jobs)
        if output.picture is None or form is None:
            curve_charts.show_chart(drawn, choice.axis, log_y=output.log_y)
        else:
            title = ", ".join(dict.fromkeys(curve.tag for curve in curves))[:80]
            options = PictureOptions(form, title, axis=choice.axis, log_y=output.log_y)
            write_new_picture(output.picture, picture(drawn, options))


async def _tags(connection: Connection, choice: CurveChoice, form: OutputForm) -> Sequence[str]:
    """Returns the tags to read: those that are given, or all; in one chart, the only one of the jobs."""
    if choice.tags:
        return choice.tags
    found: dict[str, JobTag] = {}
    for job in choice.jobs:
        for tag in await read_tags(connection, job, SCALAR.name):
            if not tag.is_system:
                found.setdefault(tag.tag, tag)
    if form == "chart" and len(found) > 1:
        raise BadUsage(f"name tags to draw with --tag; there are {some(list(found.values()))}")
    return list(found)


async def _curves(connection: Connection, choice: CurveChoice, change: CurveChange) -> list[ScalarCurve]:
    """Returns the curves with what is computed from all their points, thinned after that."""
    whole = choice.limit is None or not change.is_none
    query = ScalarQuery(
        choice.jobs,
        choice.tags,
        _range(choice),
        choice.axis,
        None if whole else choice.limit,
        choice.superseded,
        MAX_POINTS,
    )
    sources = await find_curves(connection, query)
    if choice.axis == "relative" and (choice.low or choice.high):
        curves: list[ScalarCurve] = []
        for source in sources:
            within = replace(query, within=_relative_range(choice, source))
            curves += await read_curves(connection, [source], within)
    else:
        curves = await read_curves(connection, sources, query)
    if change.is_none:
        return curves
    limit = None if change.mean else choice.limit
    return [_changed(curve, change, limit) for curve in curves]


def _changed(curve: ScalarCurve, change: CurveChange, limit: int | None) -> ScalarCurve:
    values = curve.points.values
    if change.best is not None:
        values = best_so_far(values, change.best)
    try:
        values = smoothed(values, change.smooth)
    except ValueError as error:
        raise BadUsage(f"--smooth: {error}") from error
    kept = thin(curve.positions, values, limit)
    points = replace(curve.points, values=values).at(kept)
    return replace(curve, positions=curve.positions[kept], points=points)


def _range(choice: CurveChoice) -> PointRange:
    """Returns the range of steps or of times; relative times depend on the curve."""
    match choice.axis:
        case "step":
            return PointRange(_step(choice.low, "--from", INT64_MIN), _step(choice.high, "--to", INT64_MAX))
        case "wall":
            first = _moment_ms(choice.low, INT64_MIN)
            return PointRange(first_ms=first, last_ms=_moment_ms(choice.high, INT64_MAX))
        case "relative":
            return PointRange()


def _relative_range(choice: CurveChoice, source: CurveSource) -> PointRange:
    low, high = (_seconds(text, option) for text, option in ((choice.low, "--from"), (choice.high, "--to")))
    first = INT64_MIN if low is None else source.first_ms + round(low * 1_000)
    return PointRange(
        first_ms=first, last_ms=INT64_MAX if high is None else source.first_ms + round(high * 1_000)
    )


def _step(text: str, option: str, unset: int) -> int:
    try:
        step = int(text) if text else unset
    except ValueError:
        raise BadUsage(f"{option} {text!r}: expected a step, such as 1000") from None
    if not INT64_MIN <= step <= INT64_MAX:
        raise BadUsage(f"{option} {text!r}: expected a step of 64 bits")
    return step


def _seconds(text: str, option: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        raise BadUsage(f"{option} {text!r}: expected seconds since the first point, such as 60") from None
    if not abs(seconds) < 1e12:
        raise BadUsage(f"{option} {text!r}: expected at most 1e12 seconds")
    return seconds


def _moment_ms(text: str, unset: int) -> int:
    if not text:
        return unset
    now = now_ms()
    moment = parse_point_in_time(text, now)
    if moment.offset is not None:
        raise BadUsage(f"{text!r}: expected a time such as 2026-01-31T12:00:00Z, or 10m for 10 minutes ago")
    return now if moment.time_ms is None else moment.time_ms


def _spreads(curves: Sequence[ScalarCurve], axis: CurveAxis) -> dict[str, RunSpread]:
    """Returns the mean and the spread over jobs, by tag."""
    if axis == "wall":
        raise BadUsage("--mean is over steps or relative time: leave out --axis wall, or use --axis relative")
    found = {}
    for tag in dict.fromkeys(curve.tag for curve in curves):
        runs = [(curve.positions, curve.points.values) for curve in curves if curve.tag == tag]
        found[tag] = spread_by_step(runs) if axis == "step" else spread_by_time(runs)
    return found


def _spread_curves(spreads: dict[str, RunSpread]) -> list[ChartCurve]:
    drawn = []
    for tag, spread in spreads.items():
        runs = int(spread.count.max(initial=0))
        drawn.append(ChartCurve(f"{tag} mean of {runs}", spread.positions, spread.mean))
        drawn.append(ChartCurve(f"{tag} least", spread.positions, spread.least))
        drawn.append(ChartCurve(f"{tag} greatest", spread.positions, spread.greatest))
    return drawn


def _named(curves: Sequence[ScalarCurve], jobs: dict[str, SummaryJobRow]) -> list[ChartCurve]:
    """Returns the curves with names of what tells them apart: job, tag, attempt."""
    tags, ids = {curve.tag for curve in curves}, {curve.job_id for curve in curves}
    names = {id_: jobs[id_].path if is_directory(jobs[id_]) else id_ for id_ in ids}
    if len(set(names.values())) < len(names):
        names = {id_: id_ for id_ in ids}
    drawn = []
    for curve in curves:
        parts = [names[curve.job_id]] if len(ids) > 1 or len(tags) == 1 else []
        parts += [curve.tag] if len(tags) > 1 else []
        parts += [f"attempt {curve.attempt}"] if curve.attempt is not None else []
        drawn.append(ChartCurve(" ".join(parts), curve.positions, curve.points.values))
    return drawn


def _json(curves: Sequence[ScalarCurve], spreads: dict[str, RunSpread], axis: CurveAxis) -> dict[str, Any]:
    if spreads:
        return {
            "axis": axis,
            "spreads": [{"tag": tag, **_spread_json(each)} for tag, each in spreads.items()],
        }
    return {
        "axis": axis,
        "curves": [
            {
                "job": curve.job_id,
                "tag": curve.tag,
                "attempt": curve.attempt,
                "points": curve.total,
                "positions": curve.positions.tolist(),
                "steps": curve.points.steps.tolist(),
                "times_ms": curve.points.times_ms.tolist(),
                "values": numbers(curve.points.values.tolist()),
            }
            for curve in curves
        ],
    }


def _spread_json(spread: RunSpread) -> dict[str, Any]:
    names = ("mean", "std", "least", "greatest")
    columns = {name: numbers(getattr(spread, name).tolist()) for name in names}
    return {"positions": spread.positions.tolist(), "count": spread.count.tolist(), **columns}


def _write_csv(curves: Sequence[ScalarCurve], spreads: dict[str, RunSpread]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if spreads:
        writer.writerow(("tag", "position", "count", "mean", "std", "least", "greatest"))
        for tag, each in spreads.items():
            parts = (each.positions, each.count, each.mean, each.std, each.least, each.greatest)
            writer.writerows(
                zip([tag] * len(each.positions), *(part.tolist() for part in parts), strict=True)
            )
        return
    writer.writerow(("job", "tag", "attempt", "step", "time_ms", "value"))
    for curve in curves:
        points = curve.points
        columns = zip(points.steps.tolist(), points.times_ms.tolist(), points.values.tolist(), strict=True)
        writer.writerows(
            (curve.job_id, curve.tag, curve.attempt, *row[:2], number(row[2])) for row in columns
        )
