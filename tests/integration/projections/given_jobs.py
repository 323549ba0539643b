"""Jobs in the read models, written as the services write them."""

import json
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from trackside.aggregates.summary.messages import task_job_id
from trackside.contracts.tasks.artifacts import artifact_source
from trackside.contracts.tasks.summaries import (
    MetricPointsReported,
    ReportedItem,
    Series,
    SummaryItemsReported,
)
from trackside.projections.database.postgres import Connection, Database, copy
from trackside.projections.tables.artifacts import ArtifactRows, ArtifactUseRows
from trackside.projections.tables.metrics import rows_of
from trackside.projections.writing.metric_writes import write_metrics
from trackside.projections.writing.migrate import migrate
from trackside.summaries.event_files.values import HParams
from trackside.summaries.kinds.hparams import HPARAMS

TASK = """
INSERT INTO tasks
    (task_id, stream_id, task_type, trial, name, state, worker_id, ending, objective, queued_ms, ended_ms,
     parameters, queue, attempts, device_ids, stop_reason, priority, preempt, exclusive, kind, devices,
     whole_device, service)
VALUES
    ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'default', 1, '{}', '', 0, false, false, 'cpu', 1,
     false, false)
"""
_DELETE = (
    "DELETE FROM metric_points USING metric_series AS own WHERE metric_points.series = own.series "
    "AND own.task_id = ANY($1)",
    "DELETE FROM metric_totals USING metric_series AS own WHERE metric_totals.series = own.series "
    "AND own.task_id = ANY($1)",
    "DELETE FROM summary_items USING metric_series AS own WHERE summary_items.series = own.series "
    "AND own.task_id = ANY($1)",
    "DELETE FROM metric_series WHERE task_id = ANY($1)",
    "DELETE FROM summary_briefs WHERE job_id = ANY($1)",
    "DELETE FROM tasks WHERE task_id = ANY($1)",
    "DELETE FROM summary_jobs WHERE summary_id = ANY($1) OR task_id = ANY($1)",
)
SAID = """
INSERT INTO summary_jobs
    (summary_id, base, path, task_stream, task_id, status, tag, remark, purged, files, bytes, quarantined,
     found_ms, changed_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, false, 1, 1, 0, 7, 7)
"""
BASE, NOTHING_SAID = "/summaries", (None, "", "ACTIVE")
Points = Mapping[int, float]
"""Values by step."""


@dataclass(slots=True)
class GivenJob:
    """A job: a task, or a directory if it has no fields. `metrics` has the points of each tag by attempt."""

    job_id: str
    fields: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    reported: dict[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Mapping[int, Points]] = field(default_factory=dict)
    tag: int | None = None
    remark: str = ""
    status: str = "ACTIVE"

    @property
    def stream(self) -> str:
        return self.fields.get("stream", self.job_id) if self.fields else self.job_id


def messages_of(job: GivenJob) -> list[MetricPointsReported | SummaryItemsReported]:
    """Returns the records that report what a job has: a point of step n has the time n ms."""
    found: list[MetricPointsReported | SummaryItemsReported] = []
    for tag, attempts in job.metrics.items():
        for attempt, points in attempts.items():
            values = list(points.values())
            finite = [value if math.isfinite(value) else None for value in values]
            bad = {at: _named(value) for at, value in enumerate(values) if not math.isfinite(value)}
            steps = list(points)
            series = Series(tag=tag, steps=steps, times_ms=steps, values=finite, non_finite=bad)
            found.append(
                MetricPointsReported(stream=job.stream, task_id=job.job_id, attempt=attempt, series=[series])
            )
    if job.reported:
        body = HPARAMS.pack(HParams(dict(job.reported))).body
        item = ReportedItem(kind="hparams", tag="_hparams_", step=0, time_ms=0, body=body)
        found.append(SummaryItemsReported(stream=job.stream, task_id=job.job_id, attempt=1, items=[item]))
    return found


def _named(value: float) -> Any:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


async def write_jobs(database: Database, jobs: Iterable[GivenJob]) -> None:
    """Creates the read models, if they don't exist, and writes jobs."""
    await database.transaction(migrate)
    given = list(jobs)

    async def write(connection: Connection) -> None:
        await connection.executemany(TASK, [_task(job) for job in given if job.fields])
        said = [job for job in given if not job.fields or (job.tag, job.remark, job.status) != NOTHING_SAID]
        await connection.executemany(SAID, [_said(job) for job in said])
        await write_metrics(connection, rows_of(message for job in given for message in messages_of(job)))

    await database.transaction(write)


async def write_artifacts(
    connection: Connection,
    saved: Iterable[tuple[str, str, str]],
    used: Iterable[tuple[str, str, str, str]],
) -> None:
    """Writes artifacts: task, name and digest; and inputs, with the task that saved each, or nothing.

    The first input was submitted at 6 ms.
    """
    rows: list[tuple[object, ...]] = [
        (0, at, "s", task, None, 1, 1, at, name, 1, "file", f"store:{digest}", digest, 9, "", None, "{}", at)
        for at, (task, name, digest) in enumerate(saved)
    ]
    await copy(connection, "artifacts", ArtifactRows.table.columns, rows)
    rows = []
    for at, (task, name, digest, of) in enumerate(used):
        source = artifact_source("s", of, name, 1) if of else ""
        uri = f"store:{digest}"
        rows.append((0, at, "input", name, "s", task, uri, digest, 9, "", source, None, None, 6 + at))
    await copy(connection, "artifact_uses", ArtifactUseRows.table.columns, rows)


@asynccontextmanager
async def added(database: Database, *jobs: GivenJob) -> AsyncIterator[None]:
    """Keeps these jobs in the read models for the duration of the block."""
    await write_jobs(database, jobs)
    try:
        yield
    finally:
        await database.transaction(lambda connection: _forget(connection, [job.job_id for job in jobs]))


async def _forget(connection: Connection, ids: list[str]) -> None:
    for statement in _DELETE:
        await connection.execute(statement, ids)


def _said(job: GivenJob) -> tuple[object, ...]:
    of_task = (job.stream, job.job_id) if job.fields else (None, None)
    key = task_job_id(job.job_id) if job.fields else job.job_id
    base, path = ("", "") if job.fields else (BASE, f"runs/{job.job_id}")
    return (key, base, path, *of_task, job.status, job.tag, job.remark)


def _task(job: GivenJob) -> tuple[object, ...]:
    names = ("stream", "task_type", "trial", "name", "state", "worker", "ending", "objective", "started_ms")
    values = [job.fields.get(name) for name in (*names, "ended_ms")]
    return (job.job_id, *values, json.dumps(job.params))
