"""Gets the rows of jobs removed that were deleted with `purge`.

A record in the topic of metrics says so, in the order of the points: so a rebuild leaves out the same ones.
"""

import asyncio
from functools import partial

import structlog

from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.tasks.summaries import SummariesPurged
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.retry import retry_until_reachable
from trackside.projections.database.postgres import Connection, Database, sql
from trackside.summary_indexer.rate_limited_warnings import RateLimitedWarning

log = structlog.get_logger("trackside.summary_indexer")
_warn = RateLimitedWarning("deleted jobs are looked up later")

EVERY_S = 2.0
"""How often jobs are looked up that were deleted so."""
AGAIN_AFTER = 15
"""After so many look-ups a job that still has rows is purged again."""


async def purge_deleted_jobs(service: ServiceContext, database: Database) -> None:
    """Writes a record for each deleted job that has rows and is to have none, until cancelled."""
    written: dict[str, int] = {}
    while True:
        found = dict(await database.commit_with_retries(_jobs, _warn))
        written = {job: count for job, count in written.items() if job in found and count < AGAIN_AFTER}
        for job, stream in found.items():
            if job not in written:
                await _write(service, job, stream)
            written[job] = written.get(job, 0) + 1
        await asyncio.sleep(EVERY_S)


async def _jobs(connection: Connection) -> list[tuple[str, str]]:
    """Returns job and stream of those that have rows; none before the dispatcher has made its tables."""
    if await connection.fetchval("SELECT to_regclass('summary_jobs') IS NULL"):
        return []
    return [
        (row["job_id"], row["stream_id"]) for row in await connection.fetch(sql("queries", "jobs_to_purge"))
    ]


async def _write(service: ServiceContext, job: str, stream: str) -> None:
    topic = service.topics.metrics
    record = service.writer.single(stream, SummariesPurged(stream=stream, task_id=job))
    log.info("the values of a deleted job are removed", job=job)
    request = partial(service.log.publish, topic.name, partition_of(stream, topic.partitions), record)
    await retry_until_reachable(request, _warn)
