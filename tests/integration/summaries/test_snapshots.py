"""Reads and writes of summaries don't wait for each other."""

from tests.integration.summaries.given import Rows, points
from trackside.projections.database.postgres import Connection
from trackside.projections.summaries.jobs import list_jobs, read_job
from trackside.projections.summaries.read_pool import ReadPool
from trackside.projections.summaries.scalars import ScalarQuery, read_scalars


async def test_a_read_sees_one_snapshot_while_rows_are_written(rows: Rows, database: str) -> None:
    """S10: the write ends while the read is open, so neither holds a lock that the other needs."""
    await rows.write(points("a", "loss", [1.0]))

    async def work(connection: Connection) -> tuple[int, int, int]:
        total = (await list_jobs(connection)).total
        await rows.write(points("a", "loss", [2.0, 3.0], first=1))
        await rows.write(points("b", "loss", [1.0]))
        curves = await read_scalars(connection, ScalarQuery(["a"]))
        assert (await list_jobs(connection)).total == total
        return total, (await read_job(connection, "a")).points, curves[0].total

    pool = ReadPool(database, 2, 30)
    try:
        assert await pool.read(work) == (1, 1, 1)
        curves = await pool.read(lambda connection: read_scalars(connection, ScalarQuery(["a", "b"])))
        assert [curve.total for curve in curves] == [3, 1]
    finally:
        pool.close()
