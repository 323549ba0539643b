"""Lists, searches and charts over many jobs and points; the references read the same rows by plain SQL.

A chart is of five runs with about 2,000 points each. A cold one is of runs that the reader has not read
before; the cached one is asked for again, from the cache of the summary-indexer.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from bench import many_jobs
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count, percentile
from trackside.eventlog.clock import monotonic_s
from trackside.projections.database.postgres import Connection, connect, database
from trackside.projections.job_search.search import JobSearch, search_jobs
from trackside.projections.summaries.jobs import list_jobs
from trackside.projections.summaries.read_pool import ReadPool
from trackside.projections.summaries.scalars import ScalarQuery
from trackside.projections.tables.metrics import series_id
from trackside.summary_indexer.detail.cache import DetailCache
from trackside.summary_indexer.detail.loads import CurveReads

SCHEMA = "trackside"
PAGE, PAGES = 100, 100
RUNS, CHARTS = 5, 100
CACHED_JOBS, CACHED_BYTES = 15, 256 * 1024 * 1024
SEARCH_ROUNDS = 4
LIMIT_S = 30.0
TAG = many_jobs.TAGS[0]
SEARCHES = (
    JobSearch(),
    JobSearch("state == 'ended'", sort="objective"),
    JobSearch("params.lr < 0.001 and params.optimizer == 'adam'"),
    JobSearch("params.model.layers in (1, 5) and ending == 'failed'"),
    JobSearch("metrics.loss.last < 0.3", sort="metrics.loss.last"),
    JobSearch("metrics.loss.min < 0.05 and params.batch_size >= 64", sort="metrics.accuracy.max"),
    JobSearch("not params.optimizer == 'sgd' or metrics.accuracy.mean > 0.8"),
    JobSearch("stream == 'search-1'", sort="params.lr"),
    JobSearch("last_step > 1000 and tag >= 5", sort="points", descending=True),
    JobSearch("trial in (1, 2, 3) and objective < 0.01"),
)
"""What is searched for, in turn."""
PLAIN_PAGE = "SELECT * FROM summary_briefs ORDER BY last_ms DESC, job_id LIMIT $1"
PLAIN_SCAN = "SELECT count(*) FROM tasks WHERE (parameters ->> 'lr')::float8 < 0.001"
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
        times = {**await _lists(rows, jobs), **await _searches(rows), **await _charts(rows)}
        counted = await connection.fetchval("SELECT sum(points)::bigint FROM metric_totals")
    finally:
        await connection.close()
    page, scan, chart = (percentile(times[name], 95) for name in ("plain page", "plain scan", "plain chart"))
    figures = [
        _p95("list page by cursor", times, page, "the same by SQL", Goal(200, 50, at_most=True)),
        _p95("list page by number", times, page, "the first by SQL", Goal(200, 50, at_most=True)),
        _p95("search", times, scan, "a scan by SQL", Goal(500, 100, at_most=True)),
        _p95("chart, cold", times, chart, "the same by SQL", Goal(500, 100, at_most=True)),
        _p95("chart, cached", times, chart, "the same by SQL", Goal(50, 10, at_most=True)),
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


async def _searches(rows: ManyRows) -> dict[str, list[float]]:
    """Returns the ms of searches, of all of them together and of each."""
    found: dict[str, list[float]] = {"search": [], "plain scan": []}
    async with database(rows.dsn, SCHEMA) as opened:
        for _ in range(SEARCH_ROUNDS):
            for search in SEARCHES:
                each = found.setdefault(f"search {search.where!r} by {search.sort!r}", [])
                page = await _timed(each, partial(search_jobs, opened, search))
                if not page.jobs:
                    raise MissingError(f"{search} found nothing")
                found["search"].append(each[-1])
            await _timed(found["plain scan"], partial(rows.connection.fetchval, PLAIN_SCAN))
    return found


async def _charts(rows: ManyRows) -> dict[str, list[float]]:
    """Returns the ms of charts, read by the cache of the indexer: first cold, then again."""
    cold: list[float] = []
    cached: list[float] = []
    plain: list[float] = []
    pool = ReadPool(rows.dsn, size=2, statement_limit_s=LIMIT_S)
    reads = CurveReads(DetailCache(CACHED_JOBS, CACHED_BYTES), pool, pool)
    try:
        for jobs in rows.charts:
            query = ScalarQuery([job.job_id for job in jobs], [TAG])
            for times in (cold, cached):
                curves = await _timed(times, partial(reads.read, query))
                check_count("curves of a chart", len(curves), RUNS)
            series = [series_id(job.job_id, job.attempt, TAG) for job in jobs]
            found = await _timed(plain, partial(rows.connection.fetch, PLAIN_POINTS, series))
            check_count("points of a chart", len(found), sum(job.steps for job in jobs))
    finally:
        pool.close()
    return {"chart, cold": cold, "chart, cached": cached, "plain chart": plain}


async def _timed(times: list[float], read: Callable[[], Awaitable[T]]) -> T:
    """Returns what a read returns, and adds the ms that it took."""
    began = monotonic_s()
    found = await read()
    times.append(1000 * (monotonic_s() - began))
    return found
