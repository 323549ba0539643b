"""Listeners are notified at the commit of the rows, by the runner, the summary indexer, and a rebuild."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

import pytest

from tests.integration.projections.harness import TOPICS, Written, query, running_projections
from tests.integration.projections.postgres_server import KillablePostgres
from tests.integration.summaries.given import points
from tests.unit.projections.given import HistoryWriter, search_decisions
from trackside.contracts.envelope.topics import partition_of
from trackside.eventlog.log_id import NamedLog
from trackside.eventlog.memory import MemoryLog
from trackside.projections.database.notifications import Changes, follow_changes, notify
from trackside.projections.database.postgres import Connection
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.writing.migrate import migrate
from trackside.replay.rebuild.rebuild import rebuild
from trackside.summary_indexer.store import PointsStore, PositionAdvance

EVERYTHING = Changes()
READABLE = "SELECT position >= $4 FROM positions WHERE (owner, topic, partition) = ($1, $2, $3)"


def following(
    dsn: str, on_waiting: Callable[[str | None], None] = lambda reason: None
) -> aclosing[AsyncGenerator[Changes, None]]:
    """Returns the changes as a generator that is closed at the end of its block."""
    return aclosing(follow_changes(dsn, on_waiting=on_waiting))


async def next_of(changes: AsyncGenerator[Changes, None]) -> Changes:
    """Returns the next changes; fails if there are none within a minute."""
    return await asyncio.wait_for(anext(changes), 60)


async def test_a_listener_is_told_positions_and_streams_once_the_rows_can_be_read(tables: str) -> None:
    log = MemoryLog()
    await log.ensure(TOPICS.shared)
    history = HistoryWriter(log, TOPICS)
    async with running_projections(log, tables, "dispatcher", "scheduler") as rows:
        await rows.caught_up()
        async with following(tables) as changes:
            assert await next_of(changes) == EVERYTHING
            decisions = list(search_decisions("told", lost=1))
            for decision in decisions:
                await history.append("told", decision)
            events, partition = TOPICS.events.name, partition_of("told", TOPICS.events.partitions)
            end = (await log.ends(events))[partition]
            positions: dict[tuple[str, str, int], int] = {}
            while any(positions.get((o, events, partition)) != end for o in ("dispatcher", "scheduler")):
                found = await next_of(changes)
                assert found.streams == frozenset({"told"})
                for (owner, topic, part), position in found.positions.items():
                    assert await query(tables, READABLE, owner, topic, part, position) == [(True,)]
                positions |= found.positions


async def test_what_was_rolled_back_is_not_notified_and_what_waits_comes_as_one(tables: str) -> None:
    async def failing(connection: Connection) -> None:
        await notify(connection, "trackside", "dispatcher", {("e", 0): 1}, {"rolled-back"})
        raise LookupError

    async with opened_database(tables) as opened, following(tables) as changes:
        assert await next_of(changes) == EVERYTHING
        with pytest.raises(LookupError):
            await opened.transaction(failing)

        told = partial(notify, schema="trackside", owner="dispatcher")
        for number, stream in ((2, "a"), (3, "b")):
            await opened.transaction(partial(told, positions={("e", 0): number}, streams={stream}))
        await opened.transaction(lambda connection: notify(connection, "other", "dispatcher", {}, {"c"}))
        found = await next_of(changes)
        while found.streams is not None and "b" not in found.streams:
            found = found.followed_by(await next_of(changes))
        assert found == Changes(frozenset({"dispatcher"}), {("dispatcher", "e", 0): 3}, frozenset({"a", "b"}))


async def test_the_summary_indexer_names_the_streams_of_its_points(tables: str) -> None:
    async with opened_database(tables) as opened:
        store = PointsStore(
            opened, TOPICS.metrics, lambda reason: None, NamedLog(MemoryLog(), "log", frozenset())
        )
        await store.positions()
        async with following(tables) as changes:
            assert await next_of(changes) == EVERYTHING
            await store.write([points("s.1", "loss", [0.5])], {0: PositionAdvance(0, 1)})
            place = ("summary-indexer", TOPICS.metrics.name, 0)
            assert await next_of(changes) == Changes(
                frozenset({"summary-indexer"}), {place: 1}, frozenset({"s"})
            )


async def test_a_swap_has_everything_read_again(written: Written) -> None:
    async with following(written.dsn) as changes:
        assert await next_of(changes) == EVERYTHING
        assert (await rebuild(written.log, TOPICS, written.dsn, swap=True)).swapped
        found = await next_of(changes)
        assert found.streams is None and found.owners >= {"dispatcher", "scheduler"}


async def test_a_listener_outlives_postgres_and_reads_everything_after(killable: KillablePostgres) -> None:
    lost = asyncio.Event()
    reasons: list[str | None] = []

    def on_waiting(reason: str | None) -> None:
        reasons.append(reason)
        if reason is not None:
            lost.set()

    async with following(killable.dsn, on_waiting) as changes:
        assert await next_of(changes) == EVERYTHING
        assert reasons == [None]
        killable.kill()
        pending = asyncio.create_task(next_of(changes))
        await asyncio.wait_for(lost.wait(), 60)
        await asyncio.to_thread(killable.start)
        assert await pending == EVERYTHING
        assert reasons[-1] is None
        async with opened_database(killable.dsn) as opened:
            await opened.transaction(migrate)
        assert "dispatcher" in (await next_of(changes)).owners
