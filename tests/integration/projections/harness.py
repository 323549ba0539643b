"""Runs projections over a log in memory, and queries their rows."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from urllib.parse import urlsplit

import asyncpg

from tests.integration.projections.folding_service import run_folding_service
from tests.stack import database_with_tables, fresh_database
from tests.unit.projections.given import NUMBERS, write_small_history
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Log, Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.projections.database.postgres import LIVE_SCHEMA, database
from trackside.projections.tables.metrics import Reported, rows_of
from trackside.projections.tables.owners import OWNERS, SUMMARY_INDEXER
from trackside.projections.writing.metric_writes import write_metrics
from trackside.projections.writing.row_changes import MOST_PENDING
from trackside.projections.writing.runner import Pace, run_projection

TOPICS = Topics(event_partitions=3)
FAST_PACE = Pace(between_s=0.01, quiet_s=0.2, checkpoint_records=50)


class RunningProjections:
    """Projections that run; `wait_reasons` are those that they reported, `writes` counts transactions."""

    def __init__(self, log: Log, dsn: str, owners: tuple[str, ...], topics: Topics) -> None:
        self.wait_reasons: list[str] = []
        self.writes = 0
        self._log, self._dsn, self._owners, self._topics = log, dsn, owners, topics
        self._changed = asyncio.Event()

    def on_waiting(self, reason: str | None) -> None:
        if reason is not None:
            self.wait_reasons.append(reason)
            self._changed.set()

    def on_written(self) -> None:
        self.writes += 1
        self._changed.set()

    async def until(self, check: Callable[[], Awaitable[bool]]) -> None:
        """Waits until a check succeeds; checks after every write."""
        async with asyncio.timeout(60):
            while True:
                self._changed.clear()
                if await check():
                    return
                await self._changed.wait()

    async def caught_up(self) -> None:
        """Waits until the rows are at the end of the log."""

        async def all_there() -> bool:
            late = [await is_behind(self._log, self._dsn, owner, self._topics) for owner in self._owners]
            return not any(late)

        await self.until(all_there)


@asynccontextmanager
async def running_projections(
    log: Log,
    dsn: str,
    *owners: str,
    topics: Topics = TOPICS,
    standby: bool = False,
    most_pending: int = MOST_PENDING,
) -> AsyncIterator[RunningProjections]:
    """Runs the projections of owners; fails if one of them does."""
    projections = RunningProjections(log, dsn, owners, topics)
    services = [service_on(log, dsn, topics) for _ in owners]
    runs = [
        asyncio.create_task(_run(owner, service, projections, standby, most_pending))
        for owner, service in zip(owners, services, strict=True)
    ]
    try:
        yield projections
    finally:
        for service in services:
            service.stop.set()
        await asyncio.gather(*runs)


async def _run(
    owner: str, service: ServiceContext, projections: RunningProjections, standby: bool, most_pending: int
) -> None:
    if owner == SUMMARY_INDEXER:
        await run_projection(
            owner,
            service,
            on_waiting=projections.on_waiting,
            on_written=projections.on_written,
            pace=FAST_PACE,
        )
    else:
        await run_folding_service(
            owner,
            service,
            projections.on_waiting,
            projections.on_written,
            FAST_PACE,
            standby=standby,
            most_pending=most_pending,
        )


async def write_rows(log: Log, dsn: str, topics: Topics = TOPICS) -> None:
    """Writes the rows of streams and tasks, up to the end of the log."""
    async with running_projections(log, dsn, "dispatcher", "scheduler", topics=topics) as projections:
        await projections.caught_up()


@dataclass(frozen=True)
class Written:
    """A log in memory, and a database with its rows and snapshots."""

    log: MemoryLog
    dsn: str

    @contextmanager
    def copied(self) -> Iterator["Written"]:
        log = deepcopy(self.log)
        NUMBERS[log] = Counter(NUMBERS.get(self.log))
        with fresh_database(self.dsn, urlsplit(self.dsn).path.removeprefix("/")) as dsn:
            yield Written(log, dsn)


@contextmanager
def given_rows(
    server: str, write: Callable[[MemoryLog], Awaitable[object]], topics: Topics = TOPICS
) -> Iterator[Written]:
    """Yields a log that `write` has written, and its rows in a database of a server."""
    with fresh_database(server, database_with_tables()) as dsn, ThreadPoolExecutor(1) as thread:
        written = Written(MemoryLog(), dsn)
        thread.submit(asyncio.run, _write_all_rows(written, write, topics)).result()
        yield written


async def _write_all_rows(
    written: Written, write: Callable[[MemoryLog], Awaitable[object]], topics: Topics
) -> None:
    await written.log.ensure(topics.shared)
    await write(written.log)
    async with running_projections(written.log, written.dsn, *OWNERS, topics=topics) as projections:
        await projections.caught_up()
        await projections.until(lambda: all_snapshotted(written.dsn))


def small_history(server: str) -> AbstractContextManager[Written]:
    """Keeps a small history whose rows are written, in a database of a server."""
    return given_rows(server, lambda log: write_small_history(log, TOPICS))


def service_on(log: Log, dsn: str, topics: Topics = TOPICS) -> ServiceContext:
    service = ServiceContext.on(log, topics, "tests")
    service.settings = service.settings.model_copy(update={"postgres_dsn": dsn})
    return service


async def is_behind(log: Log, dsn: str, owner: str, topics: Topics) -> bool:
    """Returns whether an owner's rows are not at the end of the log."""
    read = [topic for topic in OWNERS[owner].topics(topics) if topic.name != topics.metrics.name]
    ends = {
        (topic.name, partition): end
        for topic in read
        for partition, end in (await log.ends(topic.name)).items()
    }
    try:
        rows = await query(dsn, "SELECT topic, partition, position FROM positions WHERE owner = $1", owner)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return True
    return {(row[0], row[1]): row[2] for row in rows} != ends


async def query(dsn: str, statement: str, *values: object) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(dsn, server_settings={"search_path": f"{LIVE_SCHEMA},dashboards"})
    try:
        return [tuple(row) for row in await connection.fetch(statement, *values)]
    finally:
        await connection.close()


async def insert(dsn: str, statement: str, rows: Iterable[Sequence[object]]) -> None:
    connection = await asyncpg.connect(dsn, server_settings={"search_path": LIVE_SCHEMA})
    try:
        await connection.executemany(statement, rows)
    finally:
        await connection.close()


async def append(log: Log, topics: Topics, records: Iterable[Record]) -> None:
    """Appends records as they are to the events topic."""
    for record in records:
        stream, value = record.envelope.stream, record.message.model_dump_json().encode()
        outgoing = Outgoing(stream.encode(), value, list(record.envelope.headers.items()))
        await log.append(topics.events.name, partition_of(stream, topics.events.partitions), [outgoing])


async def log_of(records: Iterable[Record], topics: Topics = TOPICS) -> MemoryLog:
    """Returns a log in memory with these records."""
    log = MemoryLog()
    await log.ensure(topics.shared)
    await append(log, topics, records)
    return log


async def events_of(log: Log, topics: Topics = TOPICS) -> list[Record]:
    """Returns all records of the events topic of a log in memory."""
    reader = log.reader({(topics.events.name, at): 0 for at in range(topics.events.partitions)})
    return [record for entry in await reader.read(1.0, 100_000) if (record := decode(entry)) is not None]


async def write_points(dsn: str, *messages: Reported) -> None:
    """Writes points and items as the summary indexer does."""
    async with database(dsn) as opened:
        await opened.transaction(lambda connection: write_metrics(connection, rows_of(messages)))


async def all_snapshotted(dsn: str) -> bool:
    """Returns whether every stream with a row has a snapshot at the same offset."""
    lacking = await query(
        dsn,
        "SELECT stream_id FROM streams LEFT JOIN snapshots USING (stream_id, partition) "
        "WHERE log_offset IS NULL OR log_offset < last_offset",
    )
    return not lacking


async def all_rows(dsn: str) -> dict[str, list[tuple[object, ...]]]:
    return {
        table.name: await query(dsn, f"TABLE {table.name} ORDER BY {', '.join(table.key)}")
        for owner in OWNERS.values()
        for table in owner.tables
    }


async def rows_of_the_whole_log(log: Log, dsn: str) -> dict[str, list[tuple[object, ...]]]:
    """Removes the rows, has them made again from the log, and returns them."""
    await query(dsn, "DROP SCHEMA trackside CASCADE")
    async with running_projections(log, dsn, "dispatcher", "scheduler") as rows:
        await rows.caught_up()
    return await all_rows(dsn)


async def fail_new_series(dsn: str, code: str, message: str, task: str = "") -> None:
    """Makes Postgres refuse each new series of metrics, or those of a task, as it would end the statement."""
    raises = f"RAISE EXCEPTION '{message}' USING ERRCODE = '{code}'"
    body = f"RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {raises}; END $$"
    await query(dsn, f"CREATE FUNCTION trackside.fail() {body}")
    condition = f"WHEN (NEW.task_id = '{task}')" if task else ""
    trigger = f"FOR EACH ROW {condition} EXECUTE FUNCTION trackside.fail()"
    await query(dsn, f"CREATE TRIGGER fail BEFORE INSERT ON trackside.metric_series {trigger}")
