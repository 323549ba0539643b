"""The memory of the summary-indexer while ten times as many points pass through it."""

from pathlib import Path

import asyncpg

from bench.measurements import Figure, Goal, Measurements, MissingError, check_count
from bench.metric_points import BATCH_POINTS, COUNT, batches, index
from trackside.embedded.stack import Stack
from trackside.eventlog.log import Log

PARTS = 10
BATCHES_PER_TASK = 2
"""So few that there are many series: one for every hundred points."""
NAME = "memory"


async def measure(stack: Stack, log: Log, points: int) -> Measurements:
    """Publishes ten times `points`, and reads the resident memory whenever a tenth is in Postgres."""
    connection = await asyncpg.connect(stack.postgres_dsn)
    count = points // BATCH_POINTS
    memory_mb: list[float] = []
    seconds = 0.0
    try:
        before = await connection.fetchval(COUNT)
        for part in range(PARTS):
            messages = batches(count, part * count, NAME, BATCHES_PER_TASK)
            seconds += await index(log, connection, messages)
            memory_mb.append(_resident_mb(stack))
        rows = await connection.fetchval(COUNT) - before
    finally:
        await connection.close()
    expected = PARTS * count * BATCH_POINTS
    goal = Goal(1.25, 1.1, at_most=True, ratio=True)
    first = f"after {expected // PARTS:,}"
    figures = [
        Figure("-", f"indexer after {expected:,} points", memory_mb[-1], "MB", memory_mb[0], first, goal),
        Figure("-", "the same, the most of ten times", max(memory_mb), "MB", memory_mb[0], first),
        Figure("P11", "these points, Kafka to rows", rows / seconds, "/s"),
    ]
    counted = [check_count("metric points of many series", rows, expected)]
    return Measurements(figures, counted, {"indexer_mb": memory_mb})


def _resident_mb(stack: Stack) -> float:
    """Returns the resident memory of the indexer, in MB."""
    pid = stack.pid("summary-indexer")
    if pid is None:
        raise MissingError("the stack has no summary-indexer")
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6
