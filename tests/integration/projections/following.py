"""Runs projections over a log in memory, and looks at their rows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg

from trackside.contracts.topics import Topics
from trackside.eventlog.log import Log
from trackside.projections.owners import OWNERS
from trackside.projections.postgres import LIVE_SCHEMA
from trackside.projections.runner import Pace, run_projection

TOPICS = Topics(event_partitions=3)
SWIFT = Pace(between_s=0.01, quiet_s=0.2, checkpoint_records=50)


class Following:
    """Projections that run; `told` is what they waited for."""

    def __init__(self, log: Log, dsn: str, owners: tuple[str, ...], topics: Topics) -> None:
        self.told: list[str] = []
        self._log, self._dsn, self._owners, self._topics = log, dsn, owners, topics
        self._news = asyncio.Event()

    def waiting(self, reason: str | None) -> None:
        """Hears that something is waited for."""
        if reason is not None:
            self.told.append(reason)
            self._news.set()

    def written(self) -> None:
        """Hears that something was written."""
        self._news.set()

    async def until(self, check: Callable[[], Awaitable[bool]]) -> None:
        """Waits until a check holds, which is made whenever there is news."""
        async with asyncio.timeout(60):
            while True:
                self._news.clear()
                if await check():
                    return
                await self._news.wait()

    async def caught_up(self) -> None:
        """Waits until the rows are at the end of the log."""

        async def all_there() -> bool:
            late = [await behind(self._log, self._dsn, owner, self._topics) for owner in self._owners]
            return not any(late)

        await self.until(all_there)


@asynccontextmanager
async def running(log: Log, dsn: str, *owners: str, topics: Topics = TOPICS) -> AsyncIterator[Following]:
    """Runs the projections of owners; fails if one of them does."""
    stop, following = asyncio.Event(), Following(log, dsn, owners, topics)
    runs = [
        asyncio.create_task(
            run_projection(
                owner,
                log,
                topics,
                dsn,
                stop=stop,
                on_waiting=following.waiting,
                on_written=following.written,
                pace=SWIFT,
            )
        )
        for owner in owners
    ]
    try:
        yield following
    finally:
        stop.set()
        await asyncio.gather(*runs)


async def behind(log: Log, dsn: str, owner: str, topics: Topics) -> bool:
    """Returns whether an owner's rows lack something."""
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
    """Asks the live schema."""
    connection = await asyncpg.connect(dsn, server_settings={"search_path": f"{LIVE_SCHEMA},dashboards"})
    try:
        return [tuple(row) for row in await connection.fetch(statement, *values)]
    finally:
        await connection.close()


async def all_kept(dsn: str) -> bool:
    """Returns whether every stream that has a row has a snapshot as new as that."""
    lacking = await query(
        dsn,
        "SELECT stream_id FROM streams LEFT JOIN snapshots USING (stream_id, partition) "
        "WHERE log_offset IS NULL OR log_offset < last_offset",
    )
    return not lacking


async def everything(dsn: str) -> dict[str, list[tuple[object, ...]]]:
    """Returns all rows of all tables, in order."""
    return {
        table.name: await query(dsn, f"TABLE {table.name} ORDER BY {', '.join(table.key)}")
        for owner in OWNERS.values()
        for table in owner.tables
    }
