"""The time from a record in a watched file until a query of Postgres returns its point."""

import asyncio
import random
import tempfile
from contextlib import suppress
from pathlib import Path

import asyncpg

from bench.event_files import FIRST_MS
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count, percentile
from bench.point_latency import FIRST, POLL_S
from bench.summary_import import start_command
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.summaries.event_files import writing

TAG = "watched"
LIMIT_S = 20.0
GOAL = Goal(500, 50, at_most=True)
NEWEST = "SELECT max(step) FROM dashboards.metrics WHERE stream_id = $1 AND tag = $2"
JOB = "SELECT summary_id FROM trackside.summary_jobs WHERE path = $1"


async def measure(stack: Stack, points: int, seed: int, append_ms: float) -> Measurements:
    """Watches a directory by the command line, and appends records to a file in it, one after another."""
    pauses = random.Random(seed)
    times: list[float] = []
    connection = await asyncpg.connect(stack.postgres_dsn)
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        run = Path(name) / f"watched-{seed}"
        run.mkdir()
        path = run / f"events.out.tfevents.{FIRST_MS // 1000}.bench"
        path.write_bytes(writing.first_record(FIRST_MS) + writing.record(TAG, 0, FIRST_MS, 0.0))
        process = await start_command(stack, "watch", Path(name))
        try:
            job = await _job(connection, run.name)
            await _seen(connection, job, 0)
            with path.open("ab", buffering=0) as file:
                for step in range(1, FIRST + points + 1):
                    await asyncio.sleep(pauses.uniform(0.1, 0.3))
                    record = writing.record(TAG, step, FIRST_MS + step, float(step))
                    began = monotonic_s()
                    file.write(record)
                    await _seen(connection, job, step)
                    times.append(1000 * (monotonic_s() - began))
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
            await connection.close()
    median, late, what = percentile(times[FIRST:], 50), percentile(times[FIRST:], 99), "append + read back"
    figures = [
        Figure("P14", "byte in a file -> in a query, p50", median, "ms", append_ms, what, GOAL),
        Figure("P14", "the same, p99", late, "ms", append_ms, what),
    ]
    counted = [check_count("records of a watched file", len(times) - FIRST, points)]
    return Measurements(figures, counted, {"watched_ms": times})


async def _job(connection: "asyncpg.Connection[asyncpg.Record]", path: str) -> str:
    """Waits until the directory is a job; returns its id."""
    began = monotonic_s()
    while (found := await connection.fetchval(JOB, path)) is None:
        _check(began, "job of the watched directory")
        await asyncio.sleep(POLL_S)
    return str(found)


async def _seen(connection: "asyncpg.Connection[asyncpg.Record]", job: str, step: int) -> None:
    """Waits until a query returns a step."""
    began = monotonic_s()
    while (found := await connection.fetchval(NEWEST, job, TAG)) is None or found < step:
        _check(began, f"step {step} of the watched file")
        await asyncio.sleep(POLL_S)


def _check(began: float, what: str) -> None:
    if monotonic_s() - began > LIMIT_S:
        raise MissingError(f"no {what} within {LIMIT_S:g} s")
