"""The bytes that a trial leaves: in the files of Kafka, by topic, and in Postgres, by table."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import asyncpg

from bench import noop_trials
from bench.fresh_stack import TOPICS
from bench.log_watch import SeenRecord
from bench.measurements import Figure, Measurements, MissingError, check_count
from trackside.contracts.tasks.tasks import MetricReported
from trackside.embedded.stack import Stack
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.log import Log

TASK_TYPE = "sized"
STEPS, VALUES = 10, 3
"""How many steps each trial reports, and how many values at each; it prints a line at each, too.

The result is one more report.
"""
IDLE_S = 20.0
WAIT_S, PAUSE_S = 120.0, 0.2
TABLES = """
SELECT relname, pg_total_relation_size(pg_class.oid) FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = 'trackside' AND relkind = 'r'
"""


async def measure(stack: Stack, log: Log, trials: int) -> Measurements:
    """Runs a search of `trials` trials, and an idle time; compares the sizes before and after."""
    connection = await asyncpg.connect(stack.postgres_dsn)
    try:
        data = stack.folder / "kafka"
        before, tables_before = topic_bytes(data), await table_bytes(connection)
        seen = await noop_trials.run(log, trials, 120 + 2 * trials, task_type=TASK_TYPE)
        counted = _count(seen, trials)
        counted.append(await _until_written(connection, trials * STEPS * VALUES))
        tables = await table_bytes(connection)
        topics = topic_bytes(data)
    finally:
        await connection.close()
    idle = await _idle_bytes_per_hour(data)
    of_topics = {name: (size - before.get(name, 0)) / trials for name, size in topics.items()}
    of_tables = {name: (size - tables_before.get(name, 0)) / trials for name, size in tables.items()}
    points = STEPS * VALUES
    figures = [
        *(_per_trial(f"topic {name}", of_topics.get(name, 0.0)) for name in _shown_topics()),
        _per_trial("topics of devices", sum(v for name, v in of_topics.items() if ".device." in name)),
        _per_trial("Postgres, all tables", sum(of_tables.values())),
        Figure("-", "a metric point, Kafka", of_topics["trackside.metrics"] / points, "B"),
        Figure("-", "a metric point, Postgres", _of_points(of_tables) / points, "B"),
        Figure("-", "a line of output, Kafka", of_topics["trackside.logs"] / STEPS, "B"),
        Figure("-", "heartbeats, one worker, an hour", idle, "B"),
    ]
    largest = dict(sorted(of_tables.items(), key=lambda each: -each[1]))
    counted.append(
        "Postgres by table, B a trial: " + ", ".join(f"{k} {v:.0f}" for k, v in largest.items() if v)
    )
    return Measurements(figures, counted, {"bytes_per_trial": {"topics": of_topics, "tables": largest}})


def _shown_topics() -> list[str]:
    return [topic.name for topic in (TOPICS.events, TOPICS.commands, TOPICS.metrics, TOPICS.logs)]


def _per_trial(what: str, value: float) -> Figure:
    return Figure("-", f"a trial, {what}", value, "B")


def _of_points(of_tables: Mapping[str, float]) -> float:
    return of_tables["metric_points"]


def topic_bytes(folder: Path) -> dict[str, int]:
    """Returns the bytes of the records of each topic, as the broker has them in its files."""
    found: dict[str, int] = {}
    for path in folder.rglob("*.log"):
        topic, dash, partition = path.parent.name.rpartition("-")
        if dash and partition.isdigit() and "trackside." in topic:
            found[topic] = found.get(topic, 0) + path.stat().st_size
    return found


async def table_bytes(connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, int]:
    """Returns the bytes of each table with its indexes and long values, of partitions together."""
    await connection.execute("CHECKPOINT")
    return {row[0]: row[1] for row in await connection.fetch(TABLES)}


async def _until_written(connection: "asyncpg.Connection[asyncpg.Record]", points: int) -> str:
    """Waits until all points are in Postgres; raises MissingError."""
    deadline = monotonic_s() + WAIT_S
    while True:
        found = int(await connection.fetchval("SELECT count(*) FROM trackside.metric_points"))
        if found >= points or monotonic_s() > deadline:
            break
        await asyncio.sleep(PAUSE_S)
    if found < points:
        raise MissingError(f"{found:,} of {points:,} points are in Postgres after {WAIT_S:g} s")
    return f"{found:,} points"


async def _idle_bytes_per_hour(folder: Path) -> float:
    before, began_s = topic_bytes(folder)[TOPICS.heartbeats.name], monotonic_s()
    await asyncio.sleep(IDLE_S)
    grown = topic_bytes(folder)[TOPICS.heartbeats.name] - before
    return grown / (monotonic_s() - began_s) * 3600


def _count(seen: Sequence[SeenRecord], trials: int) -> list[str]:
    reports = sum(isinstance(each.record.message, MetricReported) for each in seen)
    return [check_count("reports", reports, trials * (STEPS + 1))]
