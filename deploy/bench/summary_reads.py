"""Lists and charts over many jobs and points; the references read the same rows by plain SQL.

A chart is of five runs with about 2,000 points each. A cold one is of runs that the reader has not read
before; the cached one is asked for again.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from bench import many_jobs
from bench.measurements import Figure, Goal, Measurements, check_count, percentile
from trackside.eventlog.clock import monotonic_s
from trackside.projections.metrics import series_id
from trackside.projections.postgres import Connection, connect
from trackside.projections.summaries.jobs import list_jobs
from trackside.projections.summaries.scalars import ScalarQuery, read_scalars

SCHEMA = "trackside"
PAGE, PAGES = 100, 100
RUNS, CHARTS = 5, 100
TAG = many_jobs.TAGS[0]
PLAIN_PAGE = "SELECT * FROM summary_briefs ORDER BY last_ms DESC, job_id LIMIT $1"
PLAIN_POINTS = """SELECT series, step, wall_time_ms, value FROM metric_points
    WHERE series = ANY($1::bigint[]) ORDER BY series, step"""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ManyRows:
    """The database that was filled, its long jobs by fives, and the seed of what is asked."""

    dsn: str
    connection: Connection
    charts: Sequence[Sequence[many_jobs.Job]]
    seed: int


async def measure(dsn: str, jobs: int, points: int, seed: int) -> Measurements:
    """Fills a database with `jobs` jobs and `points` points, and reads from it, one read after another."""
    generated = many_jobs.jobs_of(jobs, points)
    began = monotonic_s()
    filled = await many_jobs.fill(dsn, generated, seed)
    fill_s = monotonic_s() - began
    numbers = random.Random(seed)
    long = [job for job in generated if job.steps != many_jobs.SHORT_STEPS]
    connection = await connect(filled, SCHEMA)
    try:
        charts = [numbers.sample(long, RUNS) for _ in range(CHARTS)]
        rows = ManyRows(filled, connection, charts, seed)
        times = {**await _lists(rows, jobs), **await _charts(rows)}
        counted = await connection.fetchval("SELECT sum(points)::bigint FROM metric_totals")
    finally:
        await connection.close()
    page, chart = percentile(times["plain page"], 95), percentile(times["plain chart"], 95)
    figures = [
        _p95("list page by cursor", times, page, "the same by SQL", Goal(200, 50, at_most=True)),
        _p95("list page by number", times, page, "the first by SQL", Goal(200, 50, at_most=True)),
        _p95("chart, cold", times, chart, "the same by SQL", Goal(500, 100, at_most=True)),
    ]
    lines = [f"{jobs:,} jobs", check_count("points that are read", counted, points)]
    return Measurements(figures, lines, {"fill_s": fill_s, "read_ms": times})


def _p95(what: str, times: dict[str, list[float]], reference: float, name: str, goal: Goal) -> Figure:
    return Figure("-", f"{what}, p95", percentile(times[what], 95), "ms", reference, name, goal)


async def _lists(rows: ManyRows, jobs: int) -> dict[str, list[float]]:
    """Returns the ms of pages by cursor from the first on, and of pages by number anywhere in the list."""
    numbers, connection = random.Random(rows.seed), rows.connection
    by_cursor: list[float] = []
    by_number: list[float] = []
    plain: list[float] = []
    cursor: str | None = None
    for _ in range(PAGES):
        page = await _timed(by_cursor, partial(list_jobs, connection, PAGE, cursor))
        check_count("jobs on all pages", page.total, jobs)
        cursor = page.next_cursor
        number = numbers.randrange(jobs // PAGE)
        page = await _timed(by_number, partial(list_jobs, connection, PAGE, None, number))
        check_count("jobs of a page", len(page.jobs), PAGE)
        await _timed(plain, partial(connection.fetch, PLAIN_PAGE, PAGE))
    return {"list page by cursor": by_cursor, "list page by number": by_number, "plain page": plain}


async def _charts(rows: ManyRows) -> dict[str, list[float]]:
    """Returns the ms of charts."""
    cold: list[float] = []
    plain: list[float] = []
    for jobs in rows.charts:
        query = ScalarQuery([job.job_id for job in jobs], [TAG])
        curves = await _timed(cold, partial(read_scalars, rows.connection, query))
        check_count("curves of a chart", len(curves), RUNS)
        series = [series_id(job.job_id, job.attempt, TAG) for job in jobs]
        found = await _timed(plain, partial(rows.connection.fetch, PLAIN_POINTS, series))
        check_count("points of a chart", len(found), sum(job.steps for job in jobs))
    return {"chart, cold": cold, "plain chart": plain}


async def _timed(times: list[float], read: Callable[[], Awaitable[T]]) -> T:
    """Returns what a read returns, and adds the ms that it took."""
    began = monotonic_s()
    found = await read()
    times.append(1000 * (monotonic_s() - began))
    return found
