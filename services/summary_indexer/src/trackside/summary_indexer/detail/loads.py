"""Reads curves through the cache, and loads all curves of a job into it."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import structlog

from trackside.projections.database.postgres import Connection
from trackside.projections.summaries.points import PointRange
from trackside.projections.summaries.read_pool import ReadPool
from trackside.projections.summaries.scalars import (
    CurveSource,
    ScalarCurve,
    ScalarQuery,
    batches,
    check_total,
    find_curves,
    make_curve,
    points_within,
    read_columns,
    read_curves,
)
from trackside.summary_indexer.detail.cache import WHOLE_POINTS, CacheStatus, DetailCache
from trackside.telemetry.metrics import counter

log = structlog.get_logger("trackside.summary_indexer")


class CurveReads:
    """Reads curves by `pool` through `cache`; loads of jobs have the connections of `load_pool`."""

    def __init__(self, cache: DetailCache, pool: ReadPool, load_pool: ReadPool) -> None:
        self.cache, self.pool, self._load_pool = cache, pool, load_pool

    async def read(self, query: ScalarQuery) -> list[ScalarCurve]:
        """Returns the curves of a query as read_scalars does; those in the cache are not read."""

        async def work(connection: Connection) -> list[ScalarCurve]:
            sources = await find_curves(connection, query)
            cached = {source: self.cache.find(source, query) for source in sources}
            found = {source: curve for source, curve in cached.items() if curve is not None}
            counts = counter("trackside.summary_indexer.read.curves")
            counts.labels(cached="yes").inc(len(found))
            counts.labels(cached="no").inc(len(sources) - len(found))
            found |= await self._read(connection, [each for each in sources if each not in found], query)
            curves = [found[source] for source in sources]
            check_total(curves, query)
            return curves

        return await self.pool.read(work)

    async def load(self, job_id: str) -> CacheStatus:
        """Loads all curves of a job and returns its state then, CACHING if another load of it runs.

        An error of any class ends this load and nothing else; the cache has its reason.
        """
        if not self.cache.start_load(job_id):
            return self.cache.status(job_id)
        failure: str | None = "the load was cancelled"
        try:
            await self._load_pool.read(lambda connection: self._load_all(connection, job_id))
            failure = None
        except Exception as error:  # noqa: BLE001 - the reason is kept, and another load may succeed
            failure = f"{type(error).__name__}: {error}"
            counter("trackside.summary_indexer.failed.loads").inc()
            log.warning("job not loaded", job_id=job_id, reason=failure)
        finally:
            self.cache.end_load(job_id, failure)
        return self.cache.status(job_id)

    async def _load_all(self, connection: Connection, job_id: str) -> None:
        query = ScalarQuery([job_id], most=None)
        for batch in batches(await find_curves(connection, query)):
            for source, points in zip(batch, await read_columns(connection, batch, query), strict=True):
                if not self.cache.put(source, points, query):
                    return  # its other curves are read when they are asked for
            await asyncio.sleep(0)  # other reads go on

    async def _read(
        self, connection: Connection, sources: Sequence[CurveSource], query: ScalarQuery
    ) -> dict[CurveSource, ScalarCurve]:
        """Returns curves from Postgres; those that are read whole are kept."""
        found: dict[CurveSource, ScalarCurve] = {}
        everything = replace(query, within=PointRange())
        for batch in batches([source for source in sources if _is_read_whole(source, query)]):
            for source, points in zip(batch, await read_columns(connection, batch, everything), strict=True):
                self.cache.put(source, points, query)
                found[source] = make_curve(source, points_within(points, query.within), query)
        others = [source for source in sources if source not in found]
        return found | dict(zip(others, await read_curves(connection, others, query), strict=True))


def _is_read_whole(source: CurveSource, query: ScalarQuery) -> bool:
    """Whether all points of a curve are read: few, or those that the query is about anyway."""
    return source.points <= WHOLE_POINTS or (query.within.is_everything and query.axis == "step")
