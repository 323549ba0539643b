"""The summary-indexer as its own process, what is published to it, and what it wrote."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from tests.waiting import until
from trackside.contracts.message import Message
from trackside.contracts.summaries import MetricPointsReported, Series
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.record_writer import RecordWriter

WORKER = RecordWriter("worker", "w1")
POINTS = 20
Point = tuple[str, int, str, int]


@dataclass
class Place:
    """Where one test's log and tables are."""

    bootstrap: str
    dsn: str
    topics: Topics
    folder: Path
    started: list["Indexer"] = field(default_factory=list)

    def indexer(self, instance: str = "1", **settings: str) -> "Indexer":
        """Gives a summary-indexer, not started; `settings` are its variables without their prefix."""
        variables = {
            "TRACKSIDE_KAFKA_BOOTSTRAP": self.bootstrap,
            "TRACKSIDE_POSTGRES_DSN": self.dsn,
            "TRACKSIDE_TOPIC_PREFIX": self.topics.prefix,
            "TRACKSIDE_INSTANCE": instance,
            **{f"TRACKSIDE_SUMMARY_INDEXER_{name.upper()}": value for name, value in settings.items()},
        }
        made = Indexer(variables, self.folder / f"indexer-{len(self.started)}.log")
        self.started.append(made)
        return made


class Indexer:
    """One instance, started, killed and started again."""

    def __init__(self, variables: Mapping[str, str], output: Path) -> None:
        self._variables, self._output = variables, output
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> "Indexer":
        """Starts it, without waiting for anything."""
        with self._output.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "trackside.summary_indexer",
                env={**os.environ, **self._variables},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        return self

    def send(self, number: signal.Signals) -> None:
        """Sends a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    async def ended(self, within_s: float = 60) -> int:
        """Waits for its end and gives the exit code."""
        assert self.process is not None
        async with asyncio.timeout(within_s):
            return await self.process.wait()

    async def kill(self) -> None:
        """Kills it at once."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    @property
    def runs(self) -> bool:
        """Whether the process that was started last still runs."""
        return self.process is not None and self.process.returncode is None

    async def ready(self) -> tuple[int, dict[str, Any]]:
        """Asks `/ready` of a running one; gives status and answer."""
        port = next(line["health_port"] for line in map(json.loads, self.output.splitlines()))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /ready HTTP/1.1\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        return int(head.split()[1]), json.loads(body)

    @property
    def output(self) -> str:
        """All that it wrote on its outputs."""
        return self._output.read_text()


@asynccontextmanager
async def placed(
    bootstrap: str, dsn: str, prefix: str, folder: Path
) -> AsyncIterator[tuple[Place, KafkaLog]]:
    """Makes the topics; kills at the end what the test left running."""
    place = Place(bootstrap, dsn, Topics(prefix), folder)
    async with KafkaLog(bootstrap, "test") as log:
        await log.ensure([place.topics.metrics, place.topics.dead_letters])
        try:
            yield place, log
        finally:
            for indexer in place.started:
                await indexer.kill()


def batch(task: str, first: int, attempt: int = 1, value: float = 1.0) -> MetricPointsReported:
    """Gives a batch of POINTS points, steps `first` on."""
    steps = list(range(first, first + POINTS))
    times, values = [1_000 + step for step in steps], [value * step for step in steps]
    series = Series(tag="loss", steps=steps, times_ms=times, values=[*values])
    return MetricPointsReported(stream="s", task_id=task, attempt=attempt, series=[series])


def points_of(message: MetricPointsReported) -> dict[Point, float | None]:
    """Gives the points of a batch by their identity."""
    return {
        (message.task_id, message.attempt, series.tag, step): value
        for series in message.series
        for step, value in zip(series.steps, series.values, strict=True)
    }


async def publish(log: KafkaLog, topics: Topics, task: str, message: Message | Outgoing) -> Appended:
    """Appends a message, or a record of any bytes, where a worker would."""
    record = message if isinstance(message, Outgoing) else WORKER.single(task, message)
    return await log.publish(topics.metrics.name, partition_of(task, topics.metrics.partitions), record)


async def kept(log: KafkaLog, topics: Topics, message: MetricPointsReported) -> None:
    """Publishes a message until the log has it, as a worker does while a broker is away."""

    async def there() -> bool:
        try:
            await publish(log, topics, message.task_id, message)
        except TransientError:
            return False
        return True

    await until(there)


async def published(log: KafkaLog, topics: Topics, tasks: int, batches: int) -> dict[Point, float | None]:
    """Publishes batches of many tasks and gives the points that must be found."""
    found: dict[Point, float | None] = {}
    for number in range(batches):
        messages = [batch(f"s.{task}", number * POINTS) for task in range(tasks)]
        await asyncio.gather(*(kept(log, topics, message) for message in messages))
        for message in messages:
            found |= points_of(message)
    return found


async def indexed(dsn: str) -> dict[Point, float | None]:
    """Reads all points; empty as long as there are no tables."""
    rows = await _read(
        dsn,
        "SELECT task_id, attempt, tag, step, value "
        "FROM trackside.metric_points JOIN trackside.metric_series USING (series)",
    )
    return {(row["task_id"], row["attempt"], row["tag"], row["step"]): row["value"] for row in rows}


async def positions(dsn: str, topic: str) -> dict[int, int]:
    """Reads the stored positions of a topic."""
    query = "SELECT partition, position FROM trackside.positions WHERE topic = $1"
    rows = await _read(dsn, query, topic)
    return {row["partition"]: row["position"] for row in rows}


async def letters(dsn: str) -> list[asyncpg.Record]:
    """Reads the rows of the dead letters."""
    return await _read(dsn, "SELECT * FROM trackside.dead_letters ORDER BY letter_offset")


async def caught_up(log: KafkaLog, place: Place, within_s: float = 60) -> None:
    """Waits until the stored positions are at the end of the log, Postgres being there or not."""
    topic = place.topics.metrics.name
    ends = await log.ends(topic)

    async def there() -> bool:
        try:
            found = await positions(place.dsn, topic)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
            return False
        return all(found.get(partition, 0) >= end for partition, end in ends.items())

    await until(there, within_s)


async def reached(place: Place, records: int) -> None:
    """Waits until so many records are written."""

    async def there() -> bool:
        return sum((await positions(place.dsn, place.topics.metrics.name)).values()) >= records

    await until(there)


async def _read(dsn: str, query: str, *values: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(dsn, timeout=60)
    try:
        return await connection.fetch(query, *values)
    except asyncpg.UndefinedTableError:
        return []
    finally:
        await connection.close()
