"""Listeners are notified at the commit of the rows, by the runner, the summary indexer, and a rebuild."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

import pytest

from tests.integration.projections.harness import TOPICS, query, running_projections, write_rows
from tests.integration.projections.postgres_server import remove_postgres, start_postgres
from tests.unit.projections.given import HistoryWriter, search_decisions, write_small_history
from trackside.contracts.summaries import MetricPointsReported, Series
from trackside.contracts.topics import partition_of
from trackside.eventlog.memory import MemoryLog
from trackside.projections.migrate import migrate
from trackside.projections.notifications import Changes, follow_changes, notify
from trackside.projections.postgres import Connection
from trackside.projections.postgres import database as opened_database
from trackside.replay.rebuild.rebuild import rebuild
from trackside.summary_indexer.store import PointsStore, PositionAdvance

EVERYTHING = Changes()


def following(
    dsn: str, on_waiting: Callable[[str | None], None] = lambda reason: None
) -> aclosing[AsyncGenerator[Changes, None]]:
    """Returns the changes as a generator that is closed at the end of its block."""
    return aclosing(follow_changes(dsn, on_waiting=on_waiting))


async def next_of(changes: AsyncGenerator[Changes, None]) -> Changes:
    """Returns the next changes; fails if there are none within a minute."""
    return await asyncio.wait_for(anext(changes), 60)


async def test_a_listener_is_told_positions_and_streams_once_the_rows_can_be_read(database: str) -> None:
    log = MemoryLog()
    await log.ensure(TOPICS.shared)
    history = HistoryWriter(log, TOPICS)
    async with running_projections(log, database, "dispatcher", "scheduler") as rows:
        await rows.caught_up()
        async with following(database) as changes:
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
                    stored = await query(
                        database,
                        "SELECT position FROM positions WHERE (owner, topic, partition) = ($1, $2, $3)",
                        owner,
                        topic,
                        part,
                    )
                    assert stored[0][0] >= position  # type: ignore[operator]
                positions |= found.positions


async def test_what_was_rolled_back_is_not_notified_and_what_waits_comes_as_one(database: str) -> None:
    async def failing(connection: Connection) -> None:
        await notify(connection, "trackside", "dispatcher", {("e", 0): 1}, {"rolled-back"})
        raise LookupError

    async with opened_database(database) as opened, following(database) as changes:
        assert await next_of(changes) == EVERYTHING
        with pytest.raises(LookupError):
            await opened.transaction(failing)

        for number, stream in ((2, "a"), (3, "b")):
            await opened.transaction(
                partial(
                    notify,
                    schema="trackside",
                    owner="dispatcher",
                    positions={("e", 0): number},
                    streams={stream},
                )
            )
        await opened.transaction(lambda connection: notify(connection, "other", "dispatcher", {}, {"c"}))
        found = await next_of(changes)
        while found.streams is not None and "b" not in found.streams:
            found = found.followed_by(await next_of(changes))
        assert found == Changes(frozenset({"dispatcher"}), {("dispatcher", "e", 0): 3}, frozenset({"a", "b"}))


async def test_the_summary_indexer_names_the_streams_of_its_points(database: str) -> None:
    async with opened_database(database) as opened:
        store = PointsStore(opened, TOPICS.metrics, lambda reason: None, "log")
        await store.positions()
        async with following(database) as changes:
            assert await next_of(changes) == EVERYTHING
            point = MetricPointsReported(
                stream="s",
                task_id="s.1",
                attempt=1,
                series=(Series(tag="loss", steps=(1,), times_ms=(1,), values=(0.5,)),),
            )
            await store.write([point], {0: PositionAdvance(0, 1)})
            place = ("summary-indexer", TOPICS.metrics.name, 0)
            assert await next_of(changes) == Changes(
                frozenset({"summary-indexer"}), {place: 1}, frozenset({"s"})
            )


async def test_a_swap_has_everything_read_again(database: str) -> None:
    log = MemoryLog()
    await write_small_history(log, TOPICS)
    await write_rows(log, database)
    async with following(database) as changes:
        assert await next_of(changes) == EVERYTHING
        assert (await rebuild(log, TOPICS, database, swap=True)).swapped
        found = await next_of(changes)
        assert found.streams is None and found.owners >= {"dispatcher", "scheduler"}


async def test_a_listener_outlives_postgres_and_reads_everything_after() -> None:
    server, lost = start_postgres(), asyncio.Event()
    reasons: list[str | None] = []

    def on_waiting(reason: str | None) -> None:
        reasons.append(reason)
        if reason is not None:
            lost.set()

    try:
        async with following(server.dsn, on_waiting) as changes:
            assert await next_of(changes) == EVERYTHING
            assert reasons == [None]
            server.kill()
            pending = asyncio.create_task(next_of(changes))
            await asyncio.wait_for(lost.wait(), 60)
            await asyncio.to_thread(server.start)
            assert await pending == EVERYTHING
            assert reasons[-1] is None
            async with opened_database(server.dsn) as opened:
                await opened.transaction(migrate)
            assert "dispatcher" in (await next_of(changes)).owners
    finally:
        remove_postgres(server)
