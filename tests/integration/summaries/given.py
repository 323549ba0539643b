"""Rows of summaries in a real Postgres, and reads of them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from trackside.artifacts.store import Store
from trackside.contracts.tasks.summaries import (
    ItemArtifact,
    MetricPointsReported,
    ReportedItem,
    Series,
    SummaryItemsReported,
)
from trackside.projections.database.postgres import Connection, Database
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.tables.metrics import Reported, rows_of
from trackside.projections.writing.metric_writes import write_metrics
from trackside.projections.writing.migrate import migrate
from trackside.summaries.kinds.registry import KINDS

T = TypeVar("T")
TABLES = "metric_series, metric_points, metric_totals, summary_items, summary_briefs, " + (
    "summary_jobs, summary_files, attempts, tasks, artifacts, artifact_uses"
)
ATTEMPT = """
INSERT INTO trackside.attempts
    (task_id, stream_id, attempt, placement, adopted_by, device_ids, behind, status, reserved_memory_bytes,
     reserved_cuda_memory_bytes, interrupts, resumed_step, leftovers)
VALUES ($1, $2, $3, 1, '{}', '{}', false, 'EXITED', 0, 0, 0, $4, '{}')
"""
JOB = """
INSERT INTO trackside.summary_jobs
    (summary_id, base, path, task_stream, task_id, status, remark, files, bytes, quarantined, found_ms,
     changed_ms, purged)
VALUES ($1, '/data', $2, $4, $4, $3, '', 1, 100, 1, 0, $5, false)
"""
FILE = """
INSERT INTO trackside.summary_files VALUES ($1, 'f.1', 1, 100, 3, 'QUARANTINED', 'bad_crc', 'bad', 9, 8)
"""


class Rows:
    """The tables of one test."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def write(self, *messages: Reported) -> None:
        await self.read(lambda connection: write_metrics(connection, rows_of(messages)))

    async def attempt(self, task: str, stream: str, attempt: int, resumed_step: int | None = None) -> None:
        await self.read(lambda c: c.execute(ATTEMPT, task, stream, attempt, resumed_step))

    async def directory(
        self, job_id: str, path: str, changed_ms: int, status: str = "ACTIVE", task: str | None = None
    ) -> None:
        """Writes the rows of a job of the aggregate, and of a file of its."""
        await self.read(lambda c: c.execute(JOB, job_id, path, status, task, changed_ms))
        await self.read(lambda c: c.execute(FILE, job_id))

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await self.database.transaction(work)


@asynccontextmanager
async def given_tables(dsn: str) -> AsyncIterator[Rows]:

    async def empty(connection: Connection) -> None:
        if await connection.fetchval("SELECT to_regclass('metric_series')") is None:
            await migrate(connection)
        await connection.execute(f"TRUNCATE {TABLES}")

    async with opened_database(dsn) as opened:
        await opened.transaction(empty)
        yield Rows(opened)


def points(
    job: str, tag: str, values: Sequence[float | None], first: int = 0, attempt: int = 1, stream: str = "s"
) -> MetricPointsReported:
    """Returns a record of points with steps `first` on, a second apart."""
    steps = list(range(first, first + len(values)))
    series = Series(tag=tag, steps=steps, times_ms=[1_000 * step for step in steps], values=list(values))
    return MetricPointsReported(stream=stream, task_id=job, attempt=attempt, series=[series])


def reported(store: Store, kind: str, value: Any, step: int = 0, tag: str = "a") -> ReportedItem:
    """Returns the record of a value whose bytes are in the store where they must be."""
    packed, artifact = KINDS[kind].pack(value), None
    if packed.data is not None:
        saved = store.put(packed.data, media_type=packed.media_type)
        artifact = ItemArtifact(
            sha256=saved.sha256, size_bytes=saved.size_bytes, media_type=packed.media_type
        )
    return ReportedItem(kind=kind, tag=tag, step=step, time_ms=step, body=packed.body, artifact=artifact)


def items(job: str, *reported: ReportedItem, attempt: int = 1, stream: str = "s") -> SummaryItemsReported:
    return SummaryItemsReported(stream=stream, task_id=job, attempt=attempt, items=list(reported))
