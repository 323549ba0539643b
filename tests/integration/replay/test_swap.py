"""A swap without a gap: who reads the dashboards meanwhile sees no error, no empty table and no step back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from tests.integration.projections.harness import TOPICS, all_rows, query, running_projections
from tests.integration.replay.backed_up_log import OWNERS
from tests.unit.projections.given import HistoryWriter
from trackside.eventlog.memory import MemoryLog
from trackside.projections.database.positions import ensure_positions
from trackside.projections.database.postgres import Connection
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.writing.migrate import hold_writers, migrate
from trackside.projections.writing.snapshots import PostgresSnapshots
from trackside.replay.history.errors import BusyError
from trackside.replay.rebuild import rebuild as rebuilding
from trackside.replay.rebuild import schema_swap
from trackside.replay.rebuild.rebuild import RebuildProgress, rebuild

QUESTIONS = (
    "SELECT count(*) FROM dashboards.trials",
    "SELECT sum(ended_trials) FROM dashboards.searches",
    "SELECT count(*) FROM dashboards.attempts JOIN dashboards.tasks USING (task_id)",
    "SELECT count(*) FROM dashboards.tasks t JOIN dashboards.searches s ON s.search_id = t.stream_id",
)


LEFT = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^(rebuild|trial)'"


class Watcher:
    """Somebody who looks at the dashboards all the time; `seen` are the answers to each question."""

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = {question: [] for question in QUESTIONS}
        self.stop = False

    async def look(self, dsn: str, *, at_once: bool) -> None:
        """Asks again and again; `at_once`: all questions in one transaction, the last one first."""
        connection = await asyncpg.connect(dsn)
        try:
            while not self.stop:
                if at_once:
                    async with connection.transaction(isolation="repeatable_read", readonly=True):
                        for question in reversed(QUESTIONS):
                            self.seen[question].append(await connection.fetchval(question))
                else:
                    for question in QUESTIONS:
                        self.seen[question].append(await connection.fetchval(question))
                await asyncio.sleep(0)
        finally:
            await connection.close()


@asynccontextmanager
async def watched(dsn: str) -> AsyncIterator[list[Watcher]]:
    """Lets four people look while the block runs; an error of one of them is the test's."""
    watchers = [Watcher() for _ in range(4)]
    looking = [
        asyncio.create_task(watcher.look(dsn, at_once=bool(at % 2))) for at, watcher in enumerate(watchers)
    ]
    try:
        yield watchers
    finally:
        for watcher in watchers:
            watcher.stop = True
        await asyncio.gather(*looking)


@pytest.mark.timeout(120)
async def test_who_looks_during_a_swap_sees_no_error_no_empty_table_and_no_step_back(
    log: MemoryLog, rows: str
) -> None:
    history = HistoryWriter(log, TOPICS)
    async with running_projections(log, rows, *OWNERS) as following, watched(rows) as watchers:
        for number in range(2):
            writing = asyncio.create_task(history.search(f"more{number}", lost=0))
            report = await rebuild(log, TOPICS, rows, swap=True)
            await writing
            assert report.equal and report.swapped, str(report)
        await following.caught_up()
        assert following.wait_reasons == []
    for watcher in watchers:
        for question, answers in watcher.seen.items():
            assert len(answers) > 3, question
            assert min(answers) > 0, question
            assert answers == sorted(answers), question
    assert (await rebuild(log, TOPICS, rows)).equal


async def test_what_came_during_a_rebuild_is_in_the_swapped_rows_at_once(
    log: MemoryLog, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Services are at rest after it: they find the positions that they hold, and need not fold again."""
    history = HistoryWriter(log, TOPICS)
    async with running_projections(log, rows, *OWNERS) as following:
        compared = rebuilding._compare

        async def late(*arguments: object, **named: object) -> object:
            found = await compared(*arguments, **named)  # type: ignore[arg-type]
            await history.search("late")
            for decision in range(3):
                await history.metrics("late.0", 1, f"loss{decision}", [0, 1, 2])
            await following.caught_up()
            return found

        monkeypatch.setattr(rebuilding, "_compare", late)
        report = await rebuild(log, TOPICS, rows, swap=True)
        monkeypatch.undo()
        assert report.equal
        assert report.caught_up > 30
        late_trials = "SELECT count(*) FROM dashboards.trials WHERE search_id = 'late'"
        assert await query(rows, late_trials) == [(3,)]
        before = await all_rows(rows)
        await history.search("after")
        await following.caught_up()
    found = await all_rows(rows)
    assert len(found["trials"]) == len(before["trials"]) + 3
    assert (await rebuild(log, TOPICS, rows)).equal


async def test_a_swapped_schema_has_snapshots_that_services_start_from(log: MemoryLog, rows: str) -> None:
    await rebuild(log, TOPICS, rows, swap=True)
    recovered = await PostgresSnapshots(rows).load()
    assert recovered is not None
    ends = {partition: end for partition, end in (await log.ends(TOPICS.events.name)).items() if end}
    assert {partition: at for partition, at in recovered.positions.items() if at} == ends
    assert {stream.stream_id for stream in recovered.streams} >= {"one", "two", "open", "tasks", "going"}


async def test_a_swap_that_fails_leaves_the_live_rows_as_they_are(log: MemoryLog, rows: str) -> None:
    before = await all_rows(rows)
    told: list[RebuildProgress] = []

    def interrupted(progress: RebuildProgress) -> None:
        told.append(progress)
        if progress.read >= progress.total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await rebuild(log, TOPICS, rows, interrupted, swap=True)
    assert told
    assert await all_rows(rows) == before
    assert await query(rows, LEFT) == []


async def test_a_reader_that_would_see_the_fresh_tables_empty_is_not_swapped_under(
    log: MemoryLog, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_swap, "MAX_ROUNDS", 1)
    connection = await asyncpg.connect(rows)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            before = await connection.fetchval(QUESTIONS[0])
            with pytest.raises(BusyError, match="busy: a long transaction reads or locks the read models"):
                await rebuild(log, TOPICS, rows, swap=True)
            assert await connection.fetchval(QUESTIONS[1]) > 0
    finally:
        await connection.close()
    assert await query(rows, QUESTIONS[0]) == [(before,)]
    assert await query(rows, LEFT) == []


async def test_a_swap_drops_what_a_killed_one_has_left_and_puts_rows_right(log: MemoryLog, rows: str) -> None:
    await query(rows, "CREATE SCHEMA rebuild_killed")
    await query(rows, "CREATE TABLE rebuild_killed.trials (value int)")
    await query(rows, "UPDATE trials SET value = 0.25 WHERE task_id = 'one.2'")
    report = await rebuild(log, TOPICS, rows, swap=True)
    assert report.swapped and not report.equal
    assert await query(rows, LEFT) == []
    assert (await rebuild(log, TOPICS, rows)).equal


async def test_a_service_that_starts_and_a_swap_do_not_wait_for_each_other(
    log: MemoryLog, rows: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has made the tables and wants its positions, the other has these and wants to name the tables."""
    tried = asyncio.Event()

    async def told(*arguments: Any) -> bool:
        held = await hold_writers(*arguments)
        tried.set()
        return held

    monkeypatch.setattr(schema_swap, "hold_writers", told)
    async with asyncio.timeout(60), opened_database(rows) as service, asyncio.TaskGroup() as tasks:

        async def start(connection: Connection) -> None:
            await migrate(connection)
            await connection.execute("SELECT 1")  # else the swap takes it for a reader
            tasks.create_task(rebuild(log, TOPICS, rows, swap=True))
            await tried.wait()
            await ensure_positions(connection, "dispatcher", [(TOPICS.events.name, 0)])

        await service.transaction(start)
    assert await query(rows, LEFT) == []
