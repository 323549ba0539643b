"""Fills a database of its own with jobs and metric points, as the services would, from a seed.

Half of the jobs are tasks of searches, half directories with event files. One job in a hundred is long; the
others have 30 steps. Each has two tags. The points come in batches of jobs that run at the same time, so the
rows of a curve don't lie next to each other.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
import numpy as np
from numpy.typing import NDArray

from bench.measurements import check_count
from bench.new_database import create_read_models
from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.tasks.task import TaskState
from trackside.projections.database.postgres import Connection
from trackside.projections.tables.metric_tables import SERIES
from trackside.projections.tables.metrics import SCALAR, series_id
from trackside.projections.writing.metric_writes import count_metrics

DATABASE = "bench_summaries"
TAGS = ("loss", "accuracy")
SHORT_STEPS, LONG_SHARE = 30, 0.01
TRIALS = 100
AT_ONCE, BATCH_STEPS, SHORT_AT_ONCE = 10, 50, 1_000
FIRST_MS, STEP_MS, JOB_MS = 1_700_000_000_000, 100, 1_000
OPTIMIZERS = ("adam", "sgd", "adamw", "rmsprop")
FIRST_SESSION = 10_000
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_ROW = np.dtype(
    [
        ("columns", ">i2"),
        *(
            part
            for name, kind in (("series", ">i8"), ("step", ">i8"), ("time", ">i8"), ("value", ">f8"))
            for part in ((f"bytes_of_{name}", ">i4"), (name, kind))
        ),
        ("bytes_of_non_finite", ">i4"),
    ]
)


@dataclass(frozen=True, slots=True)
class Job:
    """A generated job: its id, its stream (its own id for a directory), attempt or session, and steps."""

    number: int
    job_id: str
    stream: str
    attempt: int
    steps: int

    @property
    def is_task(self) -> bool:
        """Whether it is a task of a search."""
        return self.stream != self.job_id

    @property
    def started_ms(self) -> int:
        """When it began, ms since 1970."""
        return FIRST_MS + JOB_MS * self.number

    @property
    def ended_ms(self) -> int:
        """When it ended, ms since 1970."""
        return self.started_ms + STEP_MS * self.steps


def jobs_of(count: int, points: int) -> list[Job]:
    """Returns the jobs of which all points are `points`, or a few less."""
    long = max(1, int(count * LONG_SHARE))
    steps_of_long = (points // len(TAGS) - (count - long) * SHORT_STEPS) // long
    every = count // long
    made = []
    for number in range(count):
        is_long = number % every == number // every % 2 and number // every < long  # tasks and directories
        steps = steps_of_long if is_long else SHORT_STEPS
        if number % 2:
            job_id = f"summary-{number:016x}"
            made.append(Job(number, job_id, job_id, FIRST_SESSION, steps))
        else:
            stream = f"search-{number // (2 * TRIALS)}"
            made.append(Job(number, f"{stream}.{number // 2 % TRIALS}", stream, 1, steps))
    return made


async def fill(dsn: str, jobs: Sequence[Job], seed: int) -> str:
    """Creates the database and its rows; returns its DSN."""
    filled = await create_read_models(dsn, DATABASE)
    connection = await asyncpg.connect(filled, server_settings={"search_path": "trackside"})
    try:
        await _copy_jobs(connection, jobs, seed)
        await connection.copy_to_table(
            "metric_points", source=copied_points(jobs, seed), format="binary",
            columns=["series", "step", "wall_time_ms", "value", "non_finite"],
        )  # fmt: skip
        counted = await count_metrics(connection)
        check_count("rows of totals", counted["metric_totals"], len(jobs) * len(TAGS))
        await connection.execute("VACUUM ANALYZE")  # as autovacuum would do
    finally:
        await connection.close()
    return filled


async def _copy_jobs(connection: Connection, jobs: Sequence[Job], seed: int) -> None:
    tasks = [job for job in jobs if job.is_task]
    await fill_table(connection, "tasks", _task_rows(tasks, seed))
    await fill_table(connection, "attempts", [_attempt_row(job) for job in tasks])
    await fill_table(connection, "summary_jobs", [_directory_row(job) for job in jobs if not job.is_task])
    series = [
        (series_id(job.job_id, job.attempt, tag), job.stream, job.job_id, job.attempt, tag, SCALAR)
        for job in jobs
        for tag in TAGS
    ]
    await connection.copy_records_to_table(SERIES.name, records=series, columns=SERIES.columns)


def _task_rows(tasks: Sequence[Job], seed: int) -> list[Mapping[str, Any]]:
    numbers = np.random.default_rng(seed)
    losses = numbers.random(len(tasks))
    rates = 10.0 ** numbers.uniform(-5, -1, len(tasks))
    sizes = 2 ** numbers.integers(4, 9, len(tasks))
    chosen = numbers.integers(0, len(OPTIMIZERS), len(tasks))
    return [
        {
            "task_id": job.job_id,
            "stream_id": job.stream,
            "task_type": "train",
            "trial": job.number // 2 % TRIALS,
            "state": str(TaskState.ENDED),
            "ending": str(AttemptEnd.FINISHED if at % 20 else AttemptEnd.FAILED),
            "attempts": 1,
            "objective": float(losses[at]),
            "queued_ms": job.started_ms - JOB_MS,
            "ended_ms": job.ended_ms,
            "parameters": json.dumps(
                {
                    "lr": float(rates[at]),
                    "batch_size": int(sizes[at]),
                    "optimizer": OPTIMIZERS[chosen[at]],
                    "model": {"layers": at % 12 + 1},
                }
            ),
        }
        for at, job in enumerate(tasks)
    ]


def _attempt_row(job: Job) -> Mapping[str, Any]:
    return {
        "task_id": job.job_id,
        "stream_id": job.stream,
        "attempt": 1,
        "status": "ended",
        "ending": "finished",
        "assigned_ms": job.started_ms,
        "accepted_ms": job.started_ms,
        "ended_ms": job.ended_ms,
    }


def _directory_row(job: Job) -> Mapping[str, Any]:
    return {
        "summary_id": job.job_id,
        "base": "/data/runs",
        "path": f"experiment-{job.number // 1000}/run-{job.number}",
        "status": "ACTIVE",
        "tag": job.number % 11,
        "files": 1,
        "bytes": 50 * len(TAGS) * job.steps,
        "found_ms": job.started_ms,
        "changed_ms": job.ended_ms,
    }


async def fill_table(connection: Connection, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Copies rows into a table; a column that they don't have is NULL, or empty where NULL isn't allowed."""
    columns = await connection.fetch(
        "SELECT column_name, data_type, is_nullable = 'NO' AS required FROM information_schema.columns "
        "WHERE table_schema = 'trackside' AND table_name = $1 AND column_default IS NULL "
        "ORDER BY ordinal_position",
        table,
    )
    empty = {
        column["column_name"]: _EMPTY[column["data_type"]] if column["required"] else None
        for column in columns
    }
    if unknown := set(rows[0]) - set(empty):
        raise ValueError(f"{table} has no columns {sorted(unknown)}")
    records = ([row.get(name, value) for name, value in empty.items()] for row in rows)
    await connection.copy_records_to_table(table, records=records, columns=list(empty))


_EMPTY = {
    "text": "",
    "jsonb": "{}",
    "boolean": False,
    "ARRAY": [],
    "integer": 0,
    "bigint": 0,
    "double precision": 0.0,
}


async def copied_points(jobs: Sequence[Job], seed: int) -> AsyncIterator[bytes]:
    """Yields the points as bytes of COPY in binary format."""
    yield _SIGNATURE
    numbers = np.random.default_rng(seed + 1)
    for group in _groups(jobs):
        series = np.array([series_id(job.job_id, job.attempt, tag) for job in group for tag in TAGS])
        started = np.array([job.started_ms for job in group for _ in TAGS])
        for first in range(0, group[0].steps, BATCH_STEPS):
            steps = np.arange(first, min(first + BATCH_STEPS, group[0].steps))
            yield _rows(series, started, steps, numbers)
    yield _END


def _groups(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Yields jobs that run at the same time, with equally many steps."""
    short = [job for job in jobs if job.steps == SHORT_STEPS]
    long = [job for job in jobs if job.steps != SHORT_STEPS]
    for listed, size in ((long, AT_ONCE), (short, SHORT_AT_ONCE)):
        for first in range(0, len(listed), size):
            yield listed[first : first + size]


def _rows(
    series: NDArray[np.int64],
    started: NDArray[np.int64],
    steps: NDArray[np.int64],
    numbers: np.random.Generator,
) -> bytes:
    """Returns the rows of some steps of each series: a curve that falls, with noise."""
    rows = np.zeros(len(series) * len(steps), _ROW)
    rows["columns"] = 5
    for name in ("series", "step", "time", "value"):
        rows[f"bytes_of_{name}"] = 8
    rows["bytes_of_non_finite"] = -1
    rows["series"] = np.repeat(series, len(steps))
    rows["step"] = np.tile(steps, len(series))
    rows["time"] = (started[:, None] + STEP_MS * steps[None, :]).ravel()
    rows["value"] = 1 / (1 + 0.01 * rows["step"]) + 0.05 * numbers.standard_normal(len(rows))
    return rows.tobytes()
