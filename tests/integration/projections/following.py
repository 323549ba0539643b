"""Runs projections over a log in memory, and looks at their rows."""

# ruff: noqa: ASYNC110 - Postgres is watched from outside the code under test
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from trackside.contracts.topics import Topics
from trackside.eventlog.log import Log
from trackside.projections.owners import OWNERS
from trackside.projections.postgres import LIVE_SCHEMA
from trackside.projections.runner import Pace, run_projection

TOPICS = Topics(event_partitions=3)
SWIFT = Pace(between_s=0.01, quiet_s=0.2, checkpoint_records=50)


@asynccontextmanager
async def running(
    log: Log, dsn: str, *owners: str, told: list[str] | None = None, topics: Topics = TOPICS
) -> AsyncIterator[None]:
    """Runs the projections of owners; fails if one of them does."""
    stop = asyncio.Event()

    def waiting(reason: str | None) -> None:
        if told is not None and reason is not None:
            told.append(reason)

    runs = [
        asyncio.create_task(run_projection(owner, log, topics, dsn, stop=stop, waiting=waiting, pace=SWIFT))
        for owner in owners
    ]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*runs)


async def caught_up(log: Log, dsn: str, *owners: str, topics: Topics = TOPICS) -> None:
    """Waits until the rows of owners are at the end of the log."""
    async with asyncio.timeout(20):
        for owner in owners:
            while await behind(log, dsn, owner, topics):
                await asyncio.sleep(0.02)


async def behind(log: Log, dsn: str, owner: str, topics: Topics) -> bool:
    """Says whether an owner's rows lack something."""
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


async def everything(dsn: str) -> dict[str, list[tuple[object, ...]]]:
    """Gives all rows of all tables, in order."""
    return {
        table.name: await query(dsn, f"TABLE {table.name} ORDER BY {', '.join(table.key)}")
        for owner in OWNERS.values()
        for table in owner.tables
    }
