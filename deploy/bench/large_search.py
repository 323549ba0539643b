"""Fills a database with a search of very many trials and their points, as the services would, from a seed.

The newest search has nine tenths of the trials, those before it have 100 each. Two trials in a thousand are
long, with 10,000 steps; the others have 30. One in twenty fails, one in ten is stopped early.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg
import numpy as np

from bench.many_jobs import JOB_MS, SHORT_STEPS, TAGS, Job, copied_points, fill_table
from bench.measurements import check_count
from bench.new_database import create_read_models
from trackside.aggregates.search.messages import StartSearch, Tuner
from trackside.aggregates.search.space.space import Uniform
from trackside.projections.tables.metric_tables import SERIES
from trackside.projections.tables.metrics import SCALAR, series_id
from trackside.projections.writing.metric_writes import count_metrics

DATABASE = "bench_boards"
LARGE = "large"
SMALL_TRIALS, WORKERS, SLOTS = 100, 4, 4
LONG_STEPS, LONG_EVERY = 10_000, 500
FIELDS = ("x", "y", "rate", "layers")


@dataclass(frozen=True, slots=True)
class LargeSearch:
    """What was filled: where, and the times of the first and the last trial in seconds since 1970."""

    dsn: str
    first_s: float
    last_s: float
    long_task: str


def jobs_of(trials: int) -> list[Job]:
    """Returns the tasks of all trials; of 100,000 the points are 9.98 million."""
    small = trials // 10
    made = []
    for number in range(trials):
        name = f"small-{number // SMALL_TRIALS}" if number < small else LARGE
        trial = number % SMALL_TRIALS if number < small else number - small
        steps = LONG_STEPS if number % LONG_EVERY == LONG_EVERY - 1 else SHORT_STEPS
        made.append(Job(number, f"{name}.{trial}", name, 1, steps))
    return made


async def fill(dsn: str, trials: int, seed: int, name: str = DATABASE) -> LargeSearch:
    """Creates the database and its rows."""
    filled = await create_read_models(dsn, name)
    jobs = jobs_of(trials)
    connection = await asyncpg.connect(filled, server_settings={"search_path": "trackside"})
    try:
        for table, rows in _tables(jobs, seed):
            await fill_table(connection, table, rows)
        series = [
            (series_id(job.job_id, 1, tag), job.stream, job.job_id, 1, tag, SCALAR)
            for job in jobs
            for tag in TAGS
        ]
        await connection.copy_records_to_table(SERIES.name, records=series, columns=SERIES.columns)
        columns = ["series", "step", "wall_time_ms", "value", "non_finite"]
        points = copied_points(jobs, seed)
        await connection.copy_to_table("metric_points", source=points, format="binary", columns=columns)
        counted = await count_metrics(connection)
        check_count("rows of totals", counted["metric_totals"], len(jobs) * len(TAGS))
        await connection.execute("VACUUM ANALYZE")  # as autovacuum would do
    finally:
        await connection.close()
    longest, last_ms = max(jobs, key=lambda job: job.steps), max(job.ended_ms for job in jobs)
    return LargeSearch(filled, jobs[0].started_ms / 1000 - 10, last_ms / 1000 + 10, longest.job_id)


def _tables(jobs: list[Job], seed: int) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    numbers = np.random.default_rng(seed)
    given = [
        dict(zip(FIELDS, map(float, row), strict=True)) for row in numbers.random((len(jobs), len(FIELDS)))
    ]
    values = [float((each["x"] - 0.3) ** 2 + each["y"] / 10) for each in given]
    yield "searches", [_search(name, [job for job in jobs if job.stream == name]) for name in _names(jobs)]
    yield (
        "trials",
        [_trial(job, parameters, value) for job, parameters, value in zip(jobs, given, values, strict=True)],
    )
    yield (
        "tasks",
        [_task(job, parameters, value) for job, parameters, value in zip(jobs, given, values, strict=True)],
    )
    yield "attempts", [_attempt(job) for job in jobs]
    yield "placements", [_placement(job) for job in jobs]
    yield (
        "workers",
        [
            {"worker_id": f"w{number}", "status": "here", "joined_ms": jobs[0].started_ms}
            for number in range(WORKERS)
        ],
    )
    yield (
        "devices",
        [
            {"worker_id": f"w{number}", "device_id": f"cpu{slot}", "kind": "cpu", "memory_bytes": 2**31}
            for number in range(WORKERS)
            for slot in range(SLOTS)
        ],
    )


def _names(jobs: list[Job]) -> list[str]:
    return list(dict.fromkeys(job.stream for job in jobs))


def _search(name: str, jobs: list[Job]) -> Mapping[str, Any]:
    spec = StartSearch(
        task_type="train",
        space={field: Uniform(type="uniform", low=0.0, high=1.0) for field in FIELDS},
        tuner=Tuner(name="tpe"),
        max_trials=len(jobs),
    )
    return {
        "search_id": name,
        "status": "DONE",
        "task_type": "train",
        "tuner": "tpe",
        "direction": "minimize",
        "max_trials": len(jobs),
        "trials": len(jobs),
        "ended_trials": len(jobs),
        "started_ms": jobs[0].started_ms - JOB_MS,
        "ended_ms": jobs[-1].ended_ms,
        "best_trial": 0,
        "spec": spec.model_dump_json(),
    }


def _status(job: Job) -> str:
    return "FAILED" if job.number % 20 == 7 else "EARLY_STOPPED" if job.number % 10 == 3 else "SUCCEEDED"


def _trial(job: Job, parameters: Mapping[str, float], value: float) -> Mapping[str, Any]:
    succeeded = _status(job) == "SUCCEEDED"
    return {
        "search_id": job.stream,
        "trial": int(job.job_id.rpartition(".")[2]),
        "task_id": job.job_id,
        "status": _status(job),
        "source": "algorithm",
        "space_version": 1,
        "value": value if succeeded else None,
        "parameters": json.dumps(parameters),
        "suggested_ms": job.started_ms - JOB_MS,
        "ended_ms": job.ended_ms,
        "last_step": job.steps - 1,
        "last_value": value,
        "report_steps": list(range(10)),
        "report_values": [value + 1 / (1 + step) for step in range(10)],
    }


def _task(job: Job, parameters: Mapping[str, float], value: float) -> Mapping[str, Any]:
    return {
        "task_id": job.job_id,
        "stream_id": job.stream,
        "task_type": "train",
        "trial": int(job.job_id.rpartition(".")[2]),
        "state": "ended",
        "ending": "failed" if _status(job) == "FAILED" else "finished",
        "attempts": 1,
        "objective": value,
        "queued_ms": job.started_ms - JOB_MS,
        "ended_ms": job.ended_ms,
        "parameters": json.dumps(parameters),
    }


def _attempt(job: Job) -> Mapping[str, Any]:
    failed = _status(job) == "FAILED"
    return _placed(job) | {
        "status": "ended",
        "ending": ("oom_host" if job.number % 40 == 7 else "failed") if failed else "finished",
        "load_time_ms": 20 + job.number % 7,
        "train_time_ms": job.ended_ms - job.started_ms,
        "reserved_memory_bytes": 2**28,
        "peak_memory_bytes": 2**27 + job.number,
        "error_type": "ValueError" if failed else None,
    }


def _placement(job: Job) -> Mapping[str, Any]:
    return _placed(job) | {"placement": 1, "ending": "finished"}


def _placed(job: Job) -> dict[str, Any]:
    return {
        "task_id": job.job_id,
        "stream_id": job.stream,
        "attempt": 1,
        "worker_id": f"w{job.number % WORKERS}",
        "device_ids": [f"cpu{job.number // WORKERS % SLOTS}"],
        "assigned_ms": job.started_ms,
        "accepted_ms": job.started_ms + 5,
        "ended_ms": job.ended_ms,
    }
