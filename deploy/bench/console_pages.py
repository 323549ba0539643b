"""How long every page and chart of the console takes, on 100,000 trials, 10 million points and many batches.

Each is asked for five times by HTTP, one after another, after one time that is not counted. What Postgres
alone takes for the query that costs most, in the same run, is beside some. If there is a Chromium, the first
contentful paint of each page is measured in it, too. The processor time of an answer is that of the console
and of Postgres, which the services of the stack use a little, too.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass

import aiohttp
import asyncpg

from bench import large_search
from bench.console_process import RunningConsole, ask
from bench.cpu_time import tree_ms
from bench.large_search import LARGE, LargeSearch
from bench.many_jobs import FIRST_MS, fill_table
from bench.measurements import Figure, Goal, Measurements, percentile
from bench.smallest import size
from trackside.eventlog.clock import monotonic_s
from trackside.projections.pages.experiments import ExperimentFilter, read_experiments_page
from trackside.projections.pages.trial_columns import trial_columns
from trackside.projections.pages.trials_page import TrialFilter, read_trials_page
from trackside.projections.reading.read_pool import ReadModelsPool, SnapshotModels

DATABASE = "bench_console"
RUNS, HOUR_S = size(5, 1), 3_600
PAINT_MS, TABLE_MS, CHART_MS = 500.0, 200.0, 300.0
LAST_TYPED = "batch-99"
IDLE_WORKERS, IDLE_DEVICES = 123, 8
"""With those that have run the trials there are 1,000 devices."""
FIRST_PAINT = """() => new Promise(found => new PerformanceObserver(list => {
    for (const entry of list.getEntriesByName("first-contentful-paint")) found(entry.startTime);
}).observe({type: "paint", buffered: true}))"""


@dataclass(frozen=True, slots=True)
class Asked:
    """An address of the console, what it is, and what it may take, ms."""

    what: str
    path: str
    limit_ms: float
    is_page: bool = True
    is_kept: bool = False
    """Whether the console keeps what it read: then the first time is a figure of its own."""


async def fill(dsn: str, trials: int, seed: int) -> LargeSearch:
    """Creates a database with the large search, as many batches as trials, and 1,000 devices."""
    filled = await large_search.fill(dsn, trials, seed, DATABASE)
    connection = await asyncpg.connect(filled.dsn, server_settings={"search_path": "trackside"})
    try:
        await fill_table(
            connection,
            "batches",
            [
                {
                    "batch_id": f"batch-{number}",
                    "name": f"evaluation {number % 1000}",
                    "status": "DONE",
                    "started_ms": FIRST_MS + number,
                    "ended_ms": FIRST_MS + 2 * number,
                }
                for number in range(trials)
            ],
        )
        idle = [f"idle-{number}" for number in range(IDLE_WORKERS)]
        joined = {"status": "here", "joined_ms": FIRST_MS}
        await fill_table(connection, "workers", [{"worker_id": each, **joined} for each in idle])
        devices = [
            {"worker_id": each, "device_id": f"gpu{number}", "kind": "gpu", "memory_bytes": 2**36}
            for each in idle
            for number in range(IDLE_DEVICES)
        ]
        await fill_table(connection, "devices", devices)
        await connection.execute("VACUUM ANALYZE batches, workers, devices")  # as autovacuum would do
    finally:
        await connection.close()
    return filled


def asked_of(filled: LargeSearch) -> list[Asked]:
    """Returns the pages and charts that are asked for."""
    search, task = f"/experiments/{LARGE}", f"/tasks/{filled.long_task.rpartition('.')[0]}/{filled.long_task}"
    timeline = f"/data/fleet/timeline?from={1000 * filled.first_s:.0f}"
    first_hour_ms, last_ms = 1000 * (filled.first_s + HOUR_S), 1000 * filled.last_s
    return [
        Asked("home", "/", PAINT_MS),
        Asked("experiments", "/experiments", PAINT_MS),
        Asked("search", search, PAINT_MS),
        Asked("trials", f"{search}/trials", PAINT_MS),
        Asked("parameters", f"{search}/parameters", PAINT_MS),
        Asked("task", task, PAINT_MS),
        Asked("fleet", "/fleet", PAINT_MS),
        Asked("what task types use", "/fleet/task-types", PAINT_MS),
        Asked("log", "/log", PAINT_MS),
        Asked("trials by value", f"{search}/trials?sort=value&order=asc", TABLE_MS),
        Asked("trials by a parameter", f"{search}/trials?sort=parameters.rate", TABLE_MS),
        Asked("trials of a status", f"{search}/trials?status=FAILED", TABLE_MS),
        Asked("trials with a text", f"{search}/trials?text=4711", TABLE_MS),
        Asked("experiments with a text", f"/experiments?text={LAST_TYPED}", TABLE_MS),
        Asked("curve of 10,000 points", f"/data{task}/curve?tag=loss", CHART_MS, is_page=False),
        Asked("best so far of all trials", f"/data/searches/{LARGE}/history", CHART_MS, is_page=False),
        Asked("columns of all trials", f"/data/searches/{LARGE}/trials", CHART_MS, False, is_kept=True),
        Asked("importances", f"/data/searches/{LARGE}/importances", CHART_MS, is_page=False),
        Asked("timeline of 28 hours", f"{timeline}&to={last_ms:.0f}", CHART_MS, is_page=False),
        Asked("timeline of an hour", f"{timeline}&to={first_hour_ms:.0f}", CHART_MS, is_page=False),
    ]


async def measure(
    running: RunningConsole, postgres: int | None, filled: LargeSearch, events: str
) -> Measurements:
    """Measures all pages of a console on the filled database, and the page at the whole address `events`.

    `postgres` is the process id of its Postgres, if that runs here.
    """
    asked = asked_of(filled)
    pages = {each: running.address + each.path for each in asked}
    pages[Asked("events of a search", events, PAINT_MS)] = events
    found, before = Measurements(), running.resident_bytes
    alone = await _alone(filled)
    by_first: dict[str, float] = {}
    cpu_ms: dict[str, float] = {}
    programs = [pid for pid in (running.pid, postgres) if pid is not None]
    async with aiohttp.ClientSession() as client:
        for each, address in pages.items():
            first_ms = (await ask(client, address)).whole_ms
            if each.is_kept:
                name = f"{each.what}, first time"
                found.figures.append(_figure(name, first_ms, each.limit_ms, alone.get(each.what)))
            used_ms = sum(map(tree_ms, programs))
            answers = [await ask(client, address) for _ in range(RUNS)]
            cpu_ms[each.what] = (sum(map(tree_ms, programs)) - used_ms) / RUNS
            whole = percentile([answer.whole_ms for answer in answers], 50)
            by_first[each.what] = percentile([answer.first_ms for answer in answers], 50)
            found.figures.append(_figure(f"{each.what}, p50", whole, each.limit_ms, alone.get(each.what)))
            found.counted.append(f"{answers[-1].size / 1000:,.0f} kB {each.what}")
    paints = await asyncio.to_thread(
        first_paints, {each.what: at for each, at in pages.items() if each.is_page}
    )
    found.figures += [_figure(f"{what}, painted, p50", ms, PAINT_MS, None) for what, ms in paints.items()]
    if not paints:
        found.counted.append("no first paint: there is no Chromium, or no Playwright")
    grown = (running.resident_bytes - before) / 1e6
    found.figures.append(Figure("-", "memory that all pages add", grown, "MB", before / 1e6, "before"))
    found.counted.append(
        "ms of processor time of each answer: "
        + "; ".join(f"{ms:.0f} {what}" for what, ms in sorted(cpu_ms.items(), key=lambda item: -item[1]))
    )
    found.details = {"console_first_byte_ms": by_first, "console_cpu_ms": cpu_ms}
    return found


def _figure(what: str, value: float, limit_ms: float, alone: float | None) -> Figure:
    goal = Goal(limit_ms, limit_ms / 2, at_most=True)
    return Figure("-", what, value, "ms", alone, "the query" if alone else "", goal)


async def _alone(filled: LargeSearch) -> Mapping[str, float]:
    """Returns what the queries of some pages take alone, with the settings of the console, median in ms."""
    with closing(ReadModelsPool(filled.dsn, size=1)) as pool:
        times: dict[str, list[float]] = {}
        for run in range(RUNS + 1):
            async with pool.read() as models:
                async for what, took_ms in _queries(models):
                    times.setdefault(what, []).extend([took_ms] if run else [])
    return {what: percentile(each, 50) for what, each in times.items()}


async def _queries(models: SnapshotModels) -> AsyncIterator[tuple[str, float]]:
    queries = {
        "trials by value": read_trials_page(models, LARGE, TrialFilter("value", limit=50)),
        "trials by a parameter": read_trials_page(
            models, LARGE, TrialFilter("parameters.rate", True, limit=50)
        ),
        "trials of a status": read_trials_page(models, LARGE, TrialFilter(statuses=("FAILED",), limit=50)),
        "trials with a text": read_trials_page(models, LARGE, TrialFilter(text="4711", limit=50)),
        "experiments with a text": read_experiments_page(models, ExperimentFilter(LAST_TYPED)),
        "columns of all trials": trial_columns(models, LARGE),
    }
    for what, query in queries.items():
        began_s = monotonic_s()
        await query
        yield what, 1000 * (monotonic_s() - began_s)


def first_paints(addresses: Mapping[str, str]) -> dict[str, float]:
    """Returns the median time until the first content is painted, ms; nothing without a Chromium."""
    program = os.environ.get("TRACKSIDE_TEST_CHROMIUM") or shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {}
    if program is None:
        return {}
    found: dict[str, float] = {}
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        for what, address in addresses.items():
            times = []
            for _ in range(RUNS + 1):
                page.goto(address, wait_until="commit")
                times.append(float(page.evaluate(FIRST_PAINT)))
                page.goto("about:blank")
            found[what] = percentile(times[1:], 50)
        browser.close()
    return found
