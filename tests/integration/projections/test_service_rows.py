"""Rows written from the state that a service folds anyway: after outages, and beside other processes."""

from collections.abc import Mapping
from functools import partial

import pytest

from tests.integration.projections.harness import (
    TOPICS,
    RunningProjections,
    all_rows,
    all_snapshotted,
    query,
    rows_of_the_whole_log,
    running_projections,
    write_rows,
)
from tests.integration.projections.postgres_server import remove_postgres, start_postgres
from tests.unit.projections.given import HistoryWriter, write_small_history
from trackside.contracts.topics import Topics
from trackside.eventlog.log import Entry, TopicPartition
from trackside.eventlog.memory import MemoryLog, MemoryReader
from trackside.projections.snapshots import PostgresSnapshots

OWNERS = ("dispatcher", "scheduler")


@pytest.fixture
async def log() -> MemoryLog:
    return MemoryLog()


async def waits(rows: RunningProjections) -> bool:
    """Returns whether the rows wait for Postgres."""
    return bool(rows.wait_reasons)


@pytest.mark.parametrize("most_pending", [0, 40])
async def test_more_changes_than_are_kept_while_postgres_is_down_are_read_again_from_the_log(
    log: MemoryLog, most_pending: int
) -> None:
    server = start_postgres()
    try:
        await log.ensure(TOPICS.shared)
        history = HistoryWriter(log, TOPICS)
        async with running_projections(log, server.dsn, *OWNERS, most_pending=most_pending) as rows:
            await history.search("before")
            await rows.caught_up()
            server.kill()
            for name in ("one", "two", "three"):
                await history.search(f"during-{name}", lost=1)
                await rows.until(partial(waits, rows))
            server.start()
            await history.search("after")
            await rows.caught_up()
        found = await all_rows(server.dsn)
        assert await rows_of_the_whole_log(log, server.dsn) == found
    finally:
        remove_postgres(server)


async def test_a_service_that_starts_without_postgres_writes_the_rows_once_it_is_there(
    log: MemoryLog,
) -> None:
    server = start_postgres()
    try:
        await write_small_history(log, TOPICS)
        server.kill()
        async with running_projections(log, server.dsn, *OWNERS) as rows:
            await rows.until(partial(waits, rows))
            await HistoryWriter(log, TOPICS).search("later")
            server.start()
            await rows.caught_up()
        found = await all_rows(server.dsn)
        assert await rows_of_the_whole_log(log, server.dsn) == found
    finally:
        remove_postgres(server)


async def test_rows_that_are_older_than_the_snapshots_are_written_from_the_log(
    log: MemoryLog, database: str
) -> None:
    await write_small_history(log, TOPICS)
    async with running_projections(log, database, *OWNERS) as rows:
        await rows.caught_up()
        await rows.until(partial(has_snapshots, database))
    found = await all_rows(database)
    await query(database, "TRUNCATE tasks, attempts, trials, streams")
    await query(database, "UPDATE positions SET position = 0")
    async with running_projections(log, database, *OWNERS) as rows:
        await rows.caught_up()
    assert await all_rows(database) == found


class FewAtOnce(MemoryLog):
    """A log of which readers get 20 records at a time, once `rows` were written since the ones before."""

    rows: RunningProjections | None = None

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> MemoryReader:
        return FewAtOnceReader(self, dict(starts))


class FewAtOnceReader(MemoryReader):
    def __init__(self, log: FewAtOnce, starts: dict[TopicPartition, int]) -> None:
        super().__init__(log, starts)
        self._few = log

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        if (rows := self._few.rows) is not None:
            before = rows.writes
            await rows.until(partial(has_written_since, rows, before))
        return await super().read(max_wait_s, 20)


async def has_written_since(rows: RunningProjections, writes: int) -> bool:
    return rows.writes > writes


async def test_a_service_that_has_lost_its_snapshots_saves_all_streams_again(database: str) -> None:
    topics, log = Topics(event_partitions=1), FewAtOnce()
    await write_small_history(log, topics)
    await write_rows(log, database, topics=topics)
    found = await all_rows(database)
    await query(database, "TRUNCATE snapshots, snapshot_positions")
    async with running_projections(log, database, "dispatcher", topics=topics) as log.rows:
        await log.rows.until(partial(all_snapshotted, database))
    assert await all_rows(database) == found


async def has_snapshots(database: str) -> bool:
    """Returns whether all partitions have snapshots."""
    recovered = await PostgresSnapshots(database).load()
    return recovered is not None and len(recovered.positions) == TOPICS.events.partitions


async def test_a_standby_writes_no_rows_until_nobody_else_does(log: MemoryLog, database: str) -> None:
    await write_small_history(log, TOPICS)
    history = HistoryWriter(log, TOPICS)
    async with running_projections(log, database, *OWNERS, standby=True) as standby:
        async with running_projections(log, database, *OWNERS) as active:
            await active.caught_up()
            await history.search("both")
            await active.caught_up()
            assert standby.writes == 0
        await history.search("alone")
        await standby.caught_up()
        assert standby.writes > 0
    found = await all_rows(database)
    assert await rows_of_the_whole_log(log, database) == found
