"""Points of metrics: which of them count when a later attempt has trained the same steps again."""

import asyncpg

from tests.integration.projections.harness import query
from trackside.projections.migrate import migrate
from trackside.projections.postgres import database as opened_database

ATTEMPT = """
INSERT INTO trackside.attempts
    (task_id, stream_id, attempt, placement, adopted_by, device_ids, behind, status, reserved_memory_bytes,
     reserved_cuda_memory_bytes, interrupts, resumed_step, leftovers)
VALUES ($1, 's', $2, 1, '{}', '{}', false, 'EXITED', 0, 0, 0, $3, '{}')
"""
SERIES = "INSERT INTO trackside.metric_series VALUES ($1, 's', $2, $3, $4)"
POINT = "INSERT INTO trackside.metric_points VALUES ($1, $2, 0, 0.5)"


async def test_points_count_below_the_step_that_a_later_attempt_resumed_at(database: str) -> None:
    async with opened_database(database) as opened:
        await opened.transaction(migrate)
    connection = await asyncpg.connect(database)
    try:
        rows = [("resumed", 1, None), ("resumed", 2, 2), ("anew", 1, None), ("anew", 2, None)]
        rows += [("silent", 1, None), ("silent", 2, None)]
        for row in rows:
            await connection.execute(ATTEMPT, *row)
        series = [("resumed", 1, "loss"), ("anew", 1, "loss"), ("silent", 1, "loss"), ("anew", 2, "loss")]
        series += [("silent", 2, "system/memory_bytes"), ("resumed", 1, "system/memory_bytes")]
        for number, given in enumerate(series):
            await connection.execute(SERIES, number, *given)
            for step in range(4):
                await connection.execute(POINT, number, step)
    finally:
        await connection.close()
    counted = await query(
        database,
        "SELECT task_id, attempt, tag, count(*) FROM dashboards.metrics WHERE counts "
        "GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    )
    assert counted == [
        ("anew", 2, "loss", 4),
        ("resumed", 1, "loss", 2),
        ("resumed", 1, "system/memory_bytes", 4),
        ("silent", 1, "loss", 4),
        ("silent", 2, "system/memory_bytes", 4),
    ]
