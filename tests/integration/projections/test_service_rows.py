"""Rows written from the state that a service folds anyway: after outages, kills, beside other processes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import count
from random import Random
from typing import Any

import pytest

from tests.integration.projections.folding_service import run_folding_service
from tests.integration.projections.harness import (
    FAST_PACE,
    TOPICS,
    RunningProjections,
    Written,
    all_rows,
    all_snapshotted,
    events_of,
    query,
    rows_of_the_whole_log,
    running_projections,
    service_on,
    write_rows,
)
from tests.integration.projections.postgres_server import KillablePostgres
from tests.unit.projections.given import HistoryWriter, write_small_history
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.domain.folding.streams import Streams
from trackside.eventlog.log import Entry, TopicPartition
from trackside.eventlog.memory import MemoryLog, MemoryReader
from trackside.projections.database.positions import move_positions
from trackside.projections.database.postgres import LIVE_SCHEMA, Database
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.database.upserts import upsert
from trackside.projections.tables.owners import OWNERS as PROJECTION_OWNERS
from trackside.projections.writing.row_changes import RowChanges
from trackside.projections.writing.row_writer import RowWriter
from trackside.projections.writing.snapshots import write_checkpoint

OWNERS = ("dispatcher", "scheduler")
WRITER = "trackside.projections.writing.row_writer"
STEPS = ("noted", "taken", "rows", "positions", "snapshot", "committed")
"""What has just happened when the process is killed."""
ENDS: dict[str, tuple[str, Callable[..., Awaitable[Any]]]] = {
    "rows": (f"{WRITER}.upsert", upsert),
    "positions": (f"{WRITER}.move_positions", move_positions),
    "snapshot": (f"{WRITER}.write_checkpoint", write_checkpoint),
    "committed": ("trackside.projections.database.postgres.Database.transaction", Database.transaction),
}


async def waits(rows: RunningProjections) -> bool:
    return bool(rows.wait_reasons)


@pytest.mark.parametrize("most_pending", [0, pytest.param(40, marks=pytest.mark.long)])
async def test_more_changes_than_are_kept_while_postgres_is_down_are_read_again_from_the_log(
    log: MemoryLog, killable: KillablePostgres, most_pending: int
) -> None:
    await log.ensure(TOPICS.shared)
    history = HistoryWriter(log, TOPICS)
    async with running_projections(log, killable.dsn, *OWNERS, most_pending=most_pending) as rows:
        await history.search("before")
        await rows.caught_up()
        killable.kill()
        for name in ("one", "two", "three"):
            await history.search(f"during-{name}", lost=1)
            await rows.until(partial(waits, rows))
        killable.start()
        await history.search("after")
        await rows.caught_up()
    found = await all_rows(killable.dsn)
    assert await rows_of_the_whole_log(log, killable.dsn) == found


async def test_a_service_that_starts_without_postgres_writes_the_rows_once_it_is_there(
    log: MemoryLog, killable: KillablePostgres
) -> None:
    await write_small_history(log, TOPICS)
    killable.kill()
    async with running_projections(log, killable.dsn, *OWNERS) as rows:
        await rows.until(partial(waits, rows))
        await HistoryWriter(log, TOPICS).search("later")
        killable.start()
        await rows.caught_up()
    found = await all_rows(killable.dsn)
    assert await rows_of_the_whole_log(log, killable.dsn) == found


async def test_rows_that_are_older_than_the_snapshots_are_written_from_the_log(written: Written) -> None:
    found = await all_rows(written.dsn)
    await query(written.dsn, "TRUNCATE tasks, attempts, trials, streams")
    await query(written.dsn, "UPDATE positions SET position = 0")
    async with running_projections(written.log, written.dsn, *OWNERS) as rows:
        await rows.caught_up()
    assert await all_rows(written.dsn) == found


class FewAtOnce(MemoryLog):
    """A log of which readers get 20 events at a time, once `rows` were written since the ones before."""

    rows: RunningProjections | None = None

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> MemoryReader:
        is_of_events = any(topic == TOPICS.events.name for topic, _ in starts)
        return FewAtOnceReader(self, dict(starts)) if is_of_events else super().reader(starts)


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


async def test_a_service_that_has_lost_its_snapshots_saves_all_streams_again(tables: str) -> None:
    topics, log = Topics(event_partitions=1), FewAtOnce()
    await write_small_history(log, topics)
    await write_rows(log, tables, topics=topics)
    found = await all_rows(tables)
    await query(tables, "TRUNCATE snapshots, snapshot_positions")
    async with running_projections(log, tables, "dispatcher", topics=topics) as log.rows:
        await log.rows.until(partial(all_snapshotted, tables))
    assert await all_rows(tables) == found


async def test_a_standby_writes_no_rows_until_nobody_else_does(written: Written) -> None:
    log, database = written.log, written.dsn
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


class KilledError(Exception):
    """Ends the service: an open transaction is rolled back, and nothing that it knew is left."""


def kill_when(monkeypatch: pytest.MonkeyPatch, step: str, owner: str, after: int) -> None:
    """Makes the service of an owner die when a step was done for the time `after`, counted from 0."""
    done = 0

    def died() -> bool:
        nonlocal done
        done += 1
        return done > after

    def then_die(function: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def patched(*arguments: Any, **named: Any) -> Any:
            result = await function(*arguments, **named)
            if died():
                raise KilledError(step)
            return result

        return patched

    def then_die_at_once(function: Callable[..., Any]) -> Callable[..., Any]:
        def patched(changes: RowChanges, *arguments: Any, **named: Any) -> Any:
            result = function(changes, *arguments, **named)
            if changes.owner.name == owner and died():
                raise KilledError(step)
            return result

        return patched

    if step in ("noted", "taken"):
        name = {"noted": "note", "taken": "take"}[step]
        monkeypatch.setattr(RowChanges, name, then_die_at_once(getattr(RowChanges, name)))
    else:
        monkeypatch.setattr(ENDS[step][0], then_die(ENDS[step][1]))


@pytest.mark.parametrize("owner", ["dispatcher", pytest.param("scheduler", marks=pytest.mark.long)])
async def test_no_row_is_lost_when_its_service_is_killed_at_any_step(
    tables: str, monkeypatch: pytest.MonkeyPatch, owner: str, seed: int
) -> None:
    log, random = MemoryLog(), Random(seed)
    await log.ensure(TOPICS.shared)
    history = HistoryWriter(log, TOPICS)
    await history.search("first")
    steps = [step for step in STEPS if step != "snapshot" or owner == "dispatcher"]
    random.shuffle(steps)
    searches = count()
    for number, step in enumerate(steps):
        with monkeypatch.context() as patches:
            kill_when(patches, step, owner, random.randrange(3))
            service = service_on(log, tables)
            running = asyncio.create_task(
                run_folding_service(owner, service, lambda reason: None, lambda: None, FAST_PACE)
            )
            async with asyncio.timeout(60):
                while not running.done():
                    await history.search(f"{number}-{next(searches)}", lost=random.randrange(2))
                    await asyncio.wait({running}, timeout=2 * FAST_PACE.quiet_s)
            with pytest.raises(KilledError, match=step):
                await running
    async with running_projections(log, tables, *OWNERS) as rows:
        await rows.caught_up()
    found = await all_rows(tables)
    assert await rows_of_the_whole_log(log, tables) == found


async def test_a_snapshot_that_another_process_has_overtaken_is_made_again(tables: str) -> None:
    """The other one has written the rows, and is killed before it writes their snapshots."""
    topics, log = Topics(event_partitions=1), MemoryLog()
    history = await write_small_history(log, topics)
    begun = await events_of(log, topics)
    await history.search("overtaken")
    changed = await events_of(log, topics)
    await history.search("later")
    all_of_it = await events_of(log, topics)
    async with opened_database(tables, LIVE_SCHEMA) as opened:
        ours, killed = [SavingService(log, tables, topics, opened) for _ in range(2)]
        for each in (ours, killed):
            await each.begin()
        await ours.write(changed[: (len(begun) + len(changed)) // 2], save=True)
        await killed.write(all_of_it[: len(changed) + 1], save=False)
        await ours.write(changed, save=True)
        await ours.write(all_of_it, save=True)
    assert await all_snapshotted(tables)


class SavingService:
    """Folds a log of one partition as the dispatcher does, and writes rows with or without snapshots."""

    def __init__(self, log: MemoryLog, dsn: str, topics: Topics, opened: Database) -> None:
        owner = PROJECTION_OWNERS["dispatcher"]
        self._changes, self._streams = RowChanges(owner, topics), Streams(AGGREGATES)
        service = service_on(log, dsn, topics)
        self._writer = RowWriter(owner, service, opened, lambda _: None, lambda: None)
        self._place, self._read = (topics.events.name, 0), 0

    async def begin(self) -> None:
        self._changes.start(await self._writer.prepare())

    async def write(self, records: list[Record], *, save: bool) -> None:
        """Folds what is new of the records of a log, and writes its rows in one transaction."""
        unsaved = self._changes.unsaved
        assert unsaved is not None
        for record in records[self._read :]:
            stream, outcome = self._streams.fold(record)
            self._changes.note(stream, outcome, record)
        self._read, position = len(records), records[-1].offset + 1
        expected = dict(self._changes.bases)
        taken = self._changes.take({self._place: position})
        due = unsaved.due(0, 0) if save else []
        made = [unsaved.take(partition, position, self._streams) for partition in due]
        await self._writer.write(taken, expected, made)
