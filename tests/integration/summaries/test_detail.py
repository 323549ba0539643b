"""Curves in memory: they are as those in Postgres, and loads of jobs don't wait for or stop each other."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import numpy as np
import pytest

from tests.integration.summaries.given import Rows, points
from trackside.projections.database.postgres import Connection
from trackside.projections.summaries.errors import SummaryReadRefused
from trackside.projections.summaries.jobs import list_jobs
from trackside.projections.summaries.points import PointRange
from trackside.projections.summaries.read_pool import ReadPool
from trackside.projections.summaries.scalars import ScalarCurve, ScalarQuery, read_scalars
from trackside.projections.writing.metric_writes import purge
from trackside.summary_indexer.detail.cache import DetailCache
from trackside.summary_indexer.detail.loads import CurveReads


@contextmanager
def given_reads(
    dsn: str, jobs: int = 15, nbytes: int = 2**28, loads: int = 15, pool: type[ReadPool] = ReadPool
) -> Iterator[CurveReads]:
    pools = pool(dsn, 4, 30), pool(dsn, loads, 30)
    yield CurveReads(DetailCache(jobs, nbytes), *pools)
    for each in pools:
        each.close()


def same(found: list[ScalarCurve], expected: list[ScalarCurve]) -> bool:
    return [
        (curve.job_id, curve.tag, curve.attempt, curve.total, curve.positions.tolist()) for curve in found
    ] == [
        (curve.job_id, curve.tag, curve.attempt, curve.total, curve.positions.tolist()) for curve in expected
    ] and all(
        np.array_equal(one.points.values, other.points.values, equal_nan=True)
        for one, other in zip(found, expected, strict=True)
    )


class BrokenReads(ReadPool):
    """Reads whose transactions fail in a way that nobody expects."""

    error: BaseException | None = ZeroDivisionError("of the driver")

    async def read(self, work: Callable[[Connection], Awaitable[Any]]) -> Any:
        if self.error is not None:
            raise self.error
        return await super().read(work)


async def test_a_curve_in_memory_is_the_one_that_postgres_has(rows: Rows, database: str) -> None:
    """S24."""
    await rows.write(points("j", "loss", [step % 97 / 7 for step in range(12_000)], stream="j"))
    await rows.write(points("j", "acc", [0.5, None, 0.7], stream="j"))
    queries = [
        ScalarQuery(["j"]),
        ScalarQuery(["j"], ["acc"], PointRange(first_step=1, last_step=1)),
        ScalarQuery(["j"], axis="relative", limit=100),
        ScalarQuery(["j"], within=PointRange(first_step=500, last_step=900), limit=None),
        ScalarQuery(["j"], superseded=True),
        ScalarQuery(["j"], limit=None),
    ]
    with given_reads(database) as reads:
        for later in (False, True):
            if later:  # a later session, which takes steps from the one before
                await rows.write(points("j", "loss", [9.0] * 50, 6_000, attempt=2, stream="j"))
            for query in [*queries, *queries]:
                expected = await rows.read(lambda c, query=query: read_scalars(c, query))  # type: ignore[misc]
                assert same(await reads.read(query), expected), query
        assert reads.cache.nbytes > 0


async def test_a_job_that_is_loaded_answers_without_reading_its_points(rows: Rows, database: str) -> None:
    """S5, S9: CachedTrainJob."""
    await rows.write(points("j", "loss", [1.0, 2.0]), points("k", "loss", [3.0]))
    with given_reads(database) as reads:
        assert reads.cache.status("j") == "NOT_IN_CACHE"
        assert await reads.load("j") == "CACHED"
        connection = await asyncpg.connect(database)
        await connection.execute("ALTER TABLE trackside.metric_points RENAME TO gone")
        (curve,) = await reads.read(ScalarQuery(["j"]))
        assert curve.points.values.tolist() == [1.0, 2.0]
        assert await reads.load("k") == "FAILED"
        await connection.execute("ALTER TABLE trackside.gone RENAME TO metric_points")
        await connection.close()
        assert "metric_points" in str(reads.cache.failure("k"))


async def test_the_jobs_read_last_stay_within_both_limits(rows: Rows, database: str) -> None:
    """S4."""
    await rows.write(*(points(f"j{job}", "loss", [float(job)] * 1_000) for job in range(5)))
    with given_reads(database, jobs=2) as reads:
        for job in (0, 1, 0, 2):
            await reads.load(f"j{job}")
            await reads.read(ScalarQuery([f"j{job}"]))
        statuses = [reads.cache.status(f"j{job}") for job in range(3)]
        assert statuses == ["CACHED", "NOT_IN_CACHE", "CACHED"]
    with given_reads(database, nbytes=60_000) as reads:
        for job in range(5):
            await reads.load(f"j{job}")
            assert reads.cache.nbytes <= 60_000
        assert [reads.cache.status(f"j{job}") for job in (3, 4)] == ["CACHED", "CACHED"]
        assert len(reads.cache) == 2


async def test_a_load_that_fails_in_any_way_says_so_and_can_be_tried_again(rows: Rows, database: str) -> None:
    """S6, S8: an error of another class left a job CACHING for good."""
    await rows.write(points("j", "loss", [1.0]))
    with given_reads(database, pool=BrokenReads) as reads:
        broken = reads._load_pool
        assert isinstance(broken, BrokenReads)
        for error in (ZeroDivisionError("of the driver"), KeyError("tag"), OSError("disk")):
            broken.error = error
            assert await reads.load("j") == "FAILED"
            assert type(error).__name__ in str(reads.cache.failure("j"))
        broken.error = None
        assert await reads.load("j") == "CACHED"
        assert reads.cache.failure("j") is None


async def test_one_load_waits_for_no_other_and_a_second_of_the_same_job_for_nothing(
    rows: Rows, database: str
) -> None:
    await rows.write(points("slow", "loss", [1.0]), points("fast", "loss", [1.0]))
    started, go_on = asyncio.Event(), asyncio.Event()

    class SlowReads(ReadPool):
        async def read(self, work: Callable[[Connection], Awaitable[Any]]) -> Any:
            async def slow(connection: Connection) -> Any:
                if not started.is_set():
                    started.set()
                    await go_on.wait()
                return await work(connection)

            return await super().read(slow)

    with given_reads(database, pool=SlowReads) as reads:
        slow = asyncio.create_task(reads.load("slow"))
        await started.wait()
        assert await reads.load("fast") == "CACHED"
        assert await reads.load("slow") == "CACHING"
        go_on.set()
        assert await slow == "CACHED"


async def test_no_more_loads_run_at_once_than_are_set(rows: Rows, database: str) -> None:
    """S9: the number of threads that was set wasn't used."""
    await rows.write(*(points(f"j{job}", "loss", [1.0]) for job in range(6)))
    running: list[int] = []

    class CountedReads(ReadPool):
        """Reads that wait until as many run at once as are set: how fast each is does not matter."""

        async def read(self, work: Callable[[Connection], Awaitable[Any]]) -> Any:
            async def counted(connection: Connection) -> Any:
                running.append(running[-1] + 1 if running else 1)
                await together.wait()
                try:
                    return await work(connection)
                finally:
                    running.append(running[-1] - 1)

            return await super().read(counted)

    for loads in (1, 3):
        running.clear()
        together = asyncio.Barrier(loads)
        with given_reads(database, loads=loads, pool=CountedReads) as reads:
            await asyncio.gather(*(reads.load(f"j{job}") for job in range(6)))
        assert max(running) == loads


async def test_an_unknown_job_is_not_in_the_cache(rows: Rows, database: str) -> None:
    """S5."""
    with given_reads(database) as reads:
        assert await reads.load("nobody") == "FAILED"
        assert "there is no job 'nobody'" in str(reads.cache.failure("nobody"))
        with pytest.raises(SummaryReadRefused, match="no job"):
            await reads.read(ScalarQuery(["nobody"]))


async def test_a_job_in_memory_is_gone_with_its_rows(rows: Rows, database: str) -> None:
    """S13: brief and detail disagreed about which jobs exist; here the same rows say so for both."""
    await rows.write(points("j", "loss", [1.0]), points("k", "loss", [2.0]))
    with given_reads(database) as reads:
        assert [await reads.load(job) for job in ("j", "k")] == ["CACHED", "CACHED"]
        await rows.read(lambda connection: purge(connection, ["j"]))
        assert [job.job_id for job in (await rows.read(list_jobs)).jobs] == ["k"]
        with pytest.raises(SummaryReadRefused, match="no job"):
            await reads.read(ScalarQuery(["j"]))
        (curve,) = await reads.read(ScalarQuery(["k"]))
        assert curve.points.values.tolist() == [2.0]
        await rows.write(points("j", "loss", [3.0, 4.0]))
        (curve,) = await reads.read(ScalarQuery(["j"]))
        assert curve.points.values.tolist() == [3.0, 4.0]
