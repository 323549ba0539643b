"""How many tags the jobs of a directory have, which is bounded; what is not remembered is in the rows."""

import asyncio
from collections import OrderedDict

import structlog

from trackside.eventlog.clock import monotonic_s
from trackside.projections.database.postgres import Database, PostgresGoneError, SchemaMissingError
from trackside.projections.summaries.tags import read_tag_names
from trackside.summary_indexer.watching.records import TagLimit

log = structlog.get_logger("trackside.summary_indexer")

REMEMBERED_JOBS = 1_000
"""Jobs whose tags are remembered."""
REMEMBERED_TAGS = 200_000
"""Tags of all jobs that are remembered; each takes about 100 bytes."""
PAUSE_S = 30.0
"""Seconds without a request after one that Postgres did not answer: files are read meanwhile."""


class IndexedTags:
    """The tags that have rows; for many scans on one connection."""

    def __init__(self, dsn: str) -> None:
        self._database = Database(dsn)
        self._turn = asyncio.Lock()
        self._again_s = 0.0

    async def of(self, job_id: str) -> list[tuple[str, str]]:
        """Returns kind and name of the tags of a job, none if Postgres does not answer."""
        async with self._turn:
            if monotonic_s() < self._again_s:
                return []
            try:
                return await self._database.transaction(lambda connection: read_tag_names(connection, job_id))
            except (PostgresGoneError, SchemaMissingError) as error:
                self._again_s = monotonic_s() + PAUSE_S
                log.warning("tags of jobs are counted from now on only", reason=str(error))
                return []

    def close(self) -> None:
        """Drops the connection."""
        self._database.terminate()


class TagLimits:
    """The limits of the jobs that were read last; without `indexed`, others begin with no tag."""

    def __init__(self, indexed: IndexedTags | None = None) -> None:
        self._indexed = indexed
        self._remembered: OrderedDict[str, TagLimit] = OrderedDict()
        self._tags = 0

    async def take(self, job_id: str, has_values: bool) -> TagLimit:
        """Returns the limit of a job, to be kept again; `has_values` says whether the log has any of it.

        Values that were written just before a restart may not have rows yet, so a job may get as many tags
        too many.
        """
        limit = self.forget(job_id)
        if limit is None:
            known = await self._indexed.of(job_id) if has_values and self._indexed is not None else ()
            limit = TagLimit.of(known)
        return limit

    def keep(self, job_id: str, limit: TagLimit) -> None:
        """Remembers the limit of a job, and forgets those that were kept first, of very many."""
        self.forget(job_id)
        self._remembered[job_id] = limit
        self._tags += limit.tags
        while len(self._remembered) > 1 and (
            len(self._remembered) > REMEMBERED_JOBS or self._tags > REMEMBERED_TAGS
        ):
            self.forget(next(iter(self._remembered)))

    def forget(self, job_id: str) -> TagLimit | None:
        """Forgets the limit of a job, and returns it."""
        limit = self._remembered.pop(job_id, None)
        if limit is not None:
            self._tags -= limit.tags
        return limit
