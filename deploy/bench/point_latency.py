"""P14: the time from a report of a task until a query of Postgres returns the point."""

import asyncio

import asyncpg

from bench.command_latency import publish
from bench.measurements import Figure, Goal, Measurements, MissingError, check_count, percentile
from trackside.aggregates.batch.messages import GroupSpec, SubmitTasks, TaskSpec
from trackside.contracts.envelope.ids import new_id
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.log import Log

FIRST = 10
"""The first points, which are not counted: connections and code are cold."""
POLL_S = 0.002
LIMIT_S = 120.0
STREAM = "bench-seen"
NEW = """SELECT step, extract(epoch FROM wall_time) * 1000 AS reported_ms FROM dashboards.metrics
    WHERE stream_id = $1 AND tag = 'objective' AND step > $2 ORDER BY step"""
GOAL = Goal(500, 50, at_most=True)


async def measure(log: Log, dsn: str, points: int, seed: int, append_ms: float) -> Measurements:
    """Runs a task that reports, and asks for its newest point all the time."""
    task = TaskSpec(task_type="reporting", parameters={"points": FIRST + points, "seed": seed})
    await publish(log, SubmitTasks(groups=[GroupSpec(tasks=[task])]), STREAM, new_id())
    connection = await asyncpg.connect(dsn)
    try:
        times = (await _seen(connection, FIRST + points))[FIRST:]
    finally:
        await connection.close()
    median, late, reference = percentile(times, 50), percentile(times, 99), "append + read back"
    figures = [
        Figure("P14", "point reported -> in a query, p50", median, "ms", append_ms, reference, GOAL),
        Figure("P14", "the same, p99", late, "ms", append_ms, reference),
    ]
    counted = [check_count("points that were waited for", len(times), points)]
    return Measurements(figures, counted, {"point_ms": times})


async def _seen(connection: "asyncpg.Connection[asyncpg.Record]", points: int) -> list[float]:
    """Returns for each point in ms how old it was when a query first had it."""
    times: list[float] = []
    began = monotonic_s()
    while len(times) < points:
        if monotonic_s() - began > LIMIT_S:
            raise MissingError(f"{len(times)} of {points} points were seen within {LIMIT_S:g} s")
        await asyncio.sleep(POLL_S)
        found = await connection.fetch(NEW, STREAM, len(times) - 1)
        at_ms = now_ms()
        times += [at_ms - float(row["reported_ms"]) for row in found]
    return times
