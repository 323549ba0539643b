"""Runs the summary-indexer as a process, publishes to it, and reads what it wrote."""

import asyncio
import json
import os
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from tests.polling import poll_until
from tests.rights import obeying_rights
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.tasks.summaries import MetricPointsReported, Series
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Appended, Outgoing

WORKER = RecordWriter("worker", "w1")
POINTS_PER_BATCH = 20
Point = tuple[str, int, str, int]


@dataclass
class Sandbox:
    """The topics, database and processes of one test."""

    bootstrap: str
    dsn: str
    topics: Topics
    folder: Path
    started: list["IndexerProcess"] = field(default_factory=list)

    def indexer(
        self,
        instance: str = "1",
        watched: Mapping[str, str] | None = None,
        obeys_rights: bool = False,
        **settings: str,
    ) -> "IndexerProcess":
        """Returns a summary-indexer, not started.

        `settings` are its variables without their prefix, `watched` those of the directories that it watches.
        """
        variables = {
            "TRACKSIDE_KAFKA_BOOTSTRAP": self.bootstrap,
            "TRACKSIDE_POSTGRES_DSN": self.dsn,
            "TRACKSIDE_TOPIC_PREFIX": self.topics.prefix,
            "TRACKSIDE_INSTANCE": instance,
            **{f"TRACKSIDE_SUMMARY_INDEXER_{name.upper()}": value for name, value in settings.items()},
            **(watched or {}),
        }
        command = [sys.executable, "-m", "trackside.summary_indexer"]
        command = obeying_rights(command) if obeys_rights else command
        made = IndexerProcess(command, variables, self.folder / f"indexer-{len(self.started)}.log")
        self.started.append(made)
        return made


class IndexerProcess:
    """One instance, which can be killed and restarted."""

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], output: Path) -> None:
        self._command, self._variables, self._output = command, variables, output
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> "IndexerProcess":
        with self._output.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *self._command,
                env={**os.environ, **self._variables},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return self

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    async def ended(self, within_s: float = 60) -> int:
        assert self.process is not None
        async with asyncio.timeout(within_s):
            return await self.process.wait()

    async def kill(self) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def get(self, path: str) -> tuple[int, Any]:
        """Returns status and JSON of a page of a running one."""
        lines = map(json.loads, self.output.splitlines())
        *_, port = (line["health_port"] for line in lines if "health_port" in line)  # of its last start

        def fetch() -> tuple[int, Any]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                    return answer.status, json.loads(answer.read())
            except urllib.error.HTTPError as refused:
                return refused.code, json.loads(refused.read())

        return await asyncio.to_thread(fetch)

    async def until(self, path: str, holds: Callable[[Any], bool]) -> None:
        """Waits until it serves a page whose content holds."""

        async def is_there() -> bool:
            if "health_port" not in self.output:
                return False
            status, answer = await self.get(path)
            return status == 200 and holds(answer)

        await poll_until(is_there)

    @property
    def output(self) -> str:
        return self._output.read_text()


@asynccontextmanager
async def open_sandbox(
    bootstrap: str, dsn: str, prefix: str, folder: Path
) -> AsyncIterator[tuple[Sandbox, KafkaLog]]:
    """Creates the topics; kills all processes at the end."""
    sandbox = Sandbox(bootstrap, dsn, Topics(prefix), folder)
    async with KafkaLog(bootstrap, "test") as log:
        topics = sandbox.topics
        await log.ensure([topics.metrics, topics.events, topics.dead_letters, topics.fleet])
        try:
            yield sandbox, log
        finally:
            for indexer in sandbox.started:
                await indexer.kill()


def batch(task: str, first: int, attempt: int = 1, value: float = 1.0) -> MetricPointsReported:
    steps = list(range(first, first + POINTS_PER_BATCH))
    times, values = [1_000 + step for step in steps], [value * step for step in steps]
    series = Series(tag="loss", steps=steps, times_ms=times, values=[*values])
    return MetricPointsReported(stream="s", task_id=task, attempt=attempt, series=[series])


def points_of(message: MetricPointsReported) -> dict[Point, float | None]:
    return {
        (message.task_id, message.attempt, series.tag, step): value
        for series in message.series
        for step, value in zip(series.steps, series.values, strict=True)
    }


async def publish(log: KafkaLog, topics: Topics, task: str, message: Message | Outgoing) -> Appended:
    """Appends a message, or any record, to the partition of its task."""
    record = message if isinstance(message, Outgoing) else WORKER.single(task, message)
    return await log.publish(topics.metrics.name, partition_of(task, topics.metrics.partitions), record)


async def publish_batches(
    log: KafkaLog, topics: Topics, tasks: int, batches: int
) -> dict[Point, float | None]:
    """Publishes batches of many tasks and returns the points that must be indexed."""
    found: dict[Point, float | None] = {}
    for number in range(batches):
        messages = [batch(f"s.{task}", number * POINTS_PER_BATCH) for task in range(tasks)]
        await asyncio.gather(*(publish(log, topics, message.task_id, message) for message in messages))
        for message in messages:
            found |= points_of(message)
    return found


async def indexed_points(dsn: str) -> dict[Point, float | None]:
    """Returns all indexed points; empty while there are no tables."""
    rows = await _read(
        dsn,
        "SELECT task_id, attempt, tag, step, value "
        "FROM trackside.metric_points JOIN trackside.metric_series USING (series)",
    )
    return {(row["task_id"], row["attempt"], row["tag"], row["step"]): row["value"] for row in rows}


async def positions(dsn: str, topic: str) -> dict[int, int]:
    rows = await _read(dsn, "SELECT partition, position FROM trackside.positions WHERE topic = $1", topic)
    return {row["partition"]: row["position"] for row in rows}


async def dead_letters(dsn: str) -> list[asyncpg.Record]:
    return await _read(dsn, "SELECT * FROM trackside.dead_letters ORDER BY letter_offset")


async def until_caught_up(log: KafkaLog, sandbox: Sandbox) -> None:
    """Waits until the stored positions are at the end of the log."""
    topic = sandbox.topics.metrics.name
    ends = await log.ends(topic)

    async def is_there() -> bool:
        found = await positions(sandbox.dsn, topic)
        return all(found.get(partition, 0) >= end for partition, end in ends.items())

    await poll_until(is_there)


async def until_written(sandbox: Sandbox, records: int) -> None:

    async def is_there() -> bool:
        return sum((await positions(sandbox.dsn, sandbox.topics.metrics.name)).values()) >= records

    await poll_until(is_there)


async def _read(dsn: str, query: str, *values: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(dsn, timeout=60)
    try:
        return await connection.fetch(query, *values)
    except asyncpg.UndefinedTableError:
        return []
    finally:
        await connection.close()
