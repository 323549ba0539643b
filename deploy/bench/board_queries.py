"""The SQL of every panel, variable and annotation of the boards, on 100,000 trials and 10 million points.

Each is run as Grafana runs it, with the rights of dashboards: the median of three runs, over the whole range.
None gets parallel workers, which others may use at that time, so the processor time of its process is all of
it.
"""

import argparse
from pathlib import Path
from statistics import median
from typing import Any

import asyncpg
from boards.answers import Answer, Target, as_reader, ask_postgres, targets
from boards.catalogue import boards
from boards.expansion import View
from rich.console import Console

from bench import large_search
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count
from trackside.eventlog.clock import monotonic_s

RUNS = 3
LIMIT_MS, LIMIT_BYTES = 200, 1_000_000


async def measure(dsn: str, options: argparse.Namespace, console: Console) -> list[Measurements]:
    """Measures, if the part `boards` is asked for, every query of the boards on `--board-trials` trials."""
    if "boards" not in options.parts:
        return []
    console.print(f"the queries of the boards on {options.board_trials:,} trials")
    return [await measure_queries(dsn, options.board_trials, options.seed)]


async def measure_queries(dsn: str, trials: int, seed: int) -> Measurements:
    """Fills a database with `trials` trials and runs every query of the boards on it."""
    began = monotonic_s()
    filled = await large_search.fill(dsn, trials, seed)
    fill_s = monotonic_s() - began
    workers = [f"w{number}" for number in range(large_search.WORKERS)]
    chosen: dict[str, Any] = dict.fromkeys(("run", "batch", "job", "metric", "contains"), "")
    chosen |= {"search": large_search.LARGE, "task": filled.long_task, "tag": "loss", "worker": workers}
    view = View(filled.first_s, filled.last_s, variables=chosen)
    connection = await as_reader(filled.dsn)
    try:
        await connection.execute("SET max_parallel_workers_per_gather = 0")
        asked = [target for board in boards() for target in targets(board.to_json()) if target.is_sql]
        measured = [await _measure_query(connection, target, view) for target in asked]
        points = await connection.fetchval("SELECT sum(points)::bigint FROM series_totals")
    finally:
        await connection.close()
    measured.sort(key=lambda each: -each["ms"])
    slowest, largest = measured[0], max(measured, key=lambda each: each["bytes"])
    dearest = max(measured, key=lambda each: each["cpu_ms"])
    if not any(each["rows"] for each in measured):
        raise MissingError("no query of the boards has returned a row")
    figures = [
        Figure(
            "-",
            f"slowest panel: {slowest['query']}",
            slowest["ms"],
            "ms",
            goal=Goal(LIMIT_MS, 100, at_most=True),
        ),
        Figure(
            "-",
            f"most processor time: {dearest['query']}",
            dearest["cpu_ms"],
            "ms",
            goal=Goal(LIMIT_MS, 100, at_most=True),
        ),
        Figure(
            "-",
            f"largest panel: {largest['query']}",
            largest["bytes"] / 1000,
            "kB",
            goal=Goal(LIMIT_BYTES / 1000, 200, at_most=True),
        ),
    ]
    over = sum(each["ms"] > LIMIT_MS or each["bytes"] > LIMIT_BYTES for each in measured)
    lines = [
        check_count(
            "points of the boards", points, sum(job.steps for job in large_search.jobs_of(trials)) * 2
        ),
        f"{len(measured)} queries of the boards, {over} over {LIMIT_MS} ms or {LIMIT_BYTES:,} bytes",
    ]
    return Measurements(figures, lines, {"board_queries": measured, "fill_s": fill_s})


async def _measure_query(
    connection: "asyncpg.Connection[asyncpg.Record]", target: Target, view: View
) -> dict[str, Any]:
    times: list[tuple[float, float]] = []
    answer: Answer | None = None
    process = await connection.fetchval("SELECT pg_backend_pid()")
    for _ in range(RUNS):
        began, used_before = monotonic_s(), _processor_ms(process)
        try:
            answer = await ask_postgres(connection, target, view)
        except asyncpg.QueryCanceledError:
            answer = Answer(target, (), ())  # dashboards have a time limit: it took that long, and has no row
        times.append((1000 * (monotonic_s() - began), _processor_ms(process) - used_before))
    if answer is None:
        raise MissingError(f"{target.name} was not run")
    took_ms, used_ms = (median(each) for each in zip(*times, strict=True))
    figures = {"ms": took_ms, "cpu_ms": used_ms, "rows": len(answer.rows), "bytes": answer.size}
    return {"query": target.name, **figures}


def _processor_ms(process: int) -> float:
    """Returns the time that a process has been on a processor: of a Postgres on this machine."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e6
