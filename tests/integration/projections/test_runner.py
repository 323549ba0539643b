"""The runner against a real Postgres: rows, positions, rivals, and a server that dies."""

import asyncio
from functools import partial

import pytest

from tests.integration.projections.harness import (
    TOPICS,
    all_rows,
    query,
    rows_of_the_whole_log,
    running_projections,
)
from tests.integration.projections.postgres_server import remove_postgres, start_postgres
from tests.unit.projections.given import HistoryWriter, search_decisions, write_small_history
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.commands import RecordDeadLettered, Source
from trackside.domain.stream import shrink
from trackside.domain.streams import Streams, dump
from trackside.eventlog.decode import decode
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.record_writer import RecordWriter
from trackside.projections.snapshots import PostgresSnapshots
from trackside.replay.rebuild.rebuild import rebuild

FIRST = ("dispatcher", "scheduler", "summary-indexer")


@pytest.fixture
async def log() -> MemoryLog:
    return MemoryLog()


async def has_snapshots(database: str, partitions: int = 1) -> bool:
    """Returns whether snapshots of that many partitions are there."""
    recovered = await PostgresSnapshots(database).load()
    return recovered is not None and len(recovered.positions) >= partitions


async def has(told: list[str]) -> bool:
    """Returns whether something was told."""
    return bool(told)


async def test_rows_say_what_the_log_says(log: MemoryLog, database: str) -> None:
    await write_small_history(log, TOPICS)
    async with running_projections(log, database, *FIRST) as rows:
        await rows.caught_up()
    searches = await query(
        database, "SELECT search_id, status, trials, ended_trials, best_trial FROM searches ORDER BY 1"
    )
    assert [row[:4] for row in searches] == [
        ("one", "DONE", 3, 3),
        ("open", "NO_MORE_TRIAL", 5, 5),
        ("two", "DONE", 4, 4),
    ]
    failed = await query(
        database,
        "SELECT status, value, ended_ms > 0, cardinality(report_steps) FROM trials WHERE task_id = 'two.2'",
    )
    assert failed == [("FAILED", None, True, 5)]
    attempts = await query(
        database,
        "SELECT attempt, status, ending, exit_code, worker_id FROM attempts WHERE task_id = $1 ORDER BY 1",
        "one.1",
    )
    assert attempts == [(1, "EXITED", "lost", 1, "w1"), (2, "FINISHED", "finished", 0, "w1")]
    error = await query(
        database,
        "SELECT error_stage, error_message FROM attempts WHERE ending = 'failed' AND stream_id = $1",
        "two",
    )
    assert error == [("TRAIN", "bad\ufffdvalue")]
    commands = await query(
        database,
        "SELECT command_id, status, code, publisher, received_at <= answered_at FROM dashboards.commands "
        "WHERE stream_id = 'two' ORDER BY 1",
    )
    assert commands == [
        ("late", "refused", "unknown_field", "cli", True),
        ("two-start", "accepted", None, "cli", True),
    ]
    assert await query(
        database, "SELECT device_id, state FROM dashboards.devices WHERE worker_id = 'w1' ORDER BY 1"
    ) == [
        ("cpu0", "free"),
        ("cpu1", "free"),
    ]
    assert len(await query(database, "SELECT * FROM dashboards.reports WHERE search_id = 'one'")) == 15


async def test_a_batch_read_again_changes_nothing(log: MemoryLog, database: str) -> None:
    await write_small_history(log, TOPICS)
    async with running_projections(log, database, "dispatcher", "scheduler") as rows:
        await rows.caught_up()
    before = await all_rows(database)
    await query(database, "UPDATE positions SET position = greatest(0, position - 20)")
    async with running_projections(log, database, "dispatcher", "scheduler") as rows:
        await rows.caught_up()
    assert await all_rows(database) == before


async def test_two_runners_of_one_owner_write_the_same_rows_as_one(log: MemoryLog, database: str) -> None:
    await log.ensure(TOPICS.shared)
    history = HistoryWriter(log, TOPICS)
    owners = ("dispatcher", "scheduler")
    async with running_projections(log, database, *owners, *owners) as rows:
        for name in ("a", "b", "c", "d"):
            for decision in search_decisions(name, lost=1):
                await history.append(name, decision)
                await asyncio.sleep(0)
            await rows.caught_up()
    found = await all_rows(database)
    assert await rows_of_the_whole_log(log, database) == found


async def test_wiped_read_models_come_back_while_it_runs(log: MemoryLog, database: str) -> None:
    await write_small_history(log, TOPICS)
    async with running_projections(log, database, *FIRST) as rows:
        await rows.caught_up()
        before = await all_rows(database)
        await query(database, "DROP SCHEMA trackside CASCADE")
        await rows.caught_up()
        assert await all_rows(database) == before


async def test_postgres_killed_while_projecting_is_caught_up_with(log: MemoryLog) -> None:
    server = start_postgres()
    try:
        await log.ensure(TOPICS.shared)
        history = HistoryWriter(log, TOPICS)
        async with running_projections(log, server.dsn, "dispatcher", "scheduler") as rows:
            await history.search("before")
            await rows.caught_up()
            for round_number in range(2):
                server.kill()
                await history.search(f"during{round_number}", lost=0)
                await rows.until(partial(has, rows.wait_reasons))
                server.start()
                await rows.caught_up()
                rows.wait_reasons.clear()
        found = await all_rows(server.dsn)
        assert await rows_of_the_whole_log(log, server.dsn) == found
    finally:
        remove_postgres(server)


async def test_snapshots_hold_what_a_fold_of_the_whole_log_gives(log: MemoryLog, database: str) -> None:
    await write_small_history(log, TOPICS)
    async with running_projections(log, database, "dispatcher") as rows:
        await rows.caught_up()
        await rows.until(lambda: has_snapshots(database, partitions=2))
    recovered = await PostgresSnapshots(database).load()
    assert recovered is not None
    folded = await folded_from_start(log)
    tail = Streams(AGGREGATES, {stream.stream_id: stream for stream in recovered.streams})
    for entry in await read_all(log):
        if entry.offset >= recovered.positions.get(entry.partition, 0):
            tail.fold(entry)
    for stream_id, stream in folded.by_id.items():
        found = tail.by_id[stream_id]
        if stream.closed:
            assert found.commands == stream.commands
            assert found.tasks == {}
        else:
            shrink(found)  # the snapshot has forgotten what had settled by then
            shrink(stream)
            assert dump(found) == dump(stream)


async def read_all(log: MemoryLog) -> list:  # type: ignore[type-arg]
    reader = log.reader({(TOPICS.events.name, partition): 0 for partition in range(3)})
    return [record for entry in await reader.read(1.0, 100_000) if (record := decode(entry)) is not None]


async def folded_from_start(log: MemoryLog) -> Streams:
    streams = Streams(AGGREGATES)
    for record in await read_all(log):
        streams.fold(record)
    return streams


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE snapshots SET fold = 'another' WHERE stream_id = 'open'",
        "UPDATE snapshot_positions SET fold = 'another'",
        "DELETE FROM snapshots WHERE stream_id = 'open'",
        "UPDATE snapshots SET state = '{}' WHERE stream_id = 'open'",
        "DROP TABLE snapshots",
    ],
)
async def test_snapshots_that_cannot_be_trusted_are_not_used(
    log: MemoryLog, database: str, harm: str
) -> None:
    await write_small_history(log, TOPICS)
    async with running_projections(log, database, "dispatcher") as rows:
        await rows.until(lambda: has_snapshots(database))
    await query(database, harm)
    assert await PostgresSnapshots(database).load() is None


async def test_without_postgres_there_are_no_snapshots() -> None:
    assert await PostgresSnapshots("postgresql://127.0.0.1:1/none").load() is None


async def test_a_runner_that_starts_again_goes_on_from_its_snapshots(log: MemoryLog, database: str) -> None:
    await write_small_history(log, TOPICS)
    async with running_projections(log, database, "dispatcher", "scheduler") as rows:
        await rows.until(lambda: has_snapshots(database))
        await rows.caught_up()
    await HistoryWriter(log, TOPICS).search("later", lost=0)
    async with running_projections(log, database, "dispatcher", "scheduler") as rows:
        await rows.caught_up()
    found = await all_rows(database)
    assert await rows_of_the_whole_log(log, database) == found


class ForgetfulLog(MemoryLog):
    """A log whose first dead letter is kept no longer."""

    async def beginnings(self, topic: str) -> dict[int, int]:
        """Returns that dead letters begin at 1."""
        found = await super().beginnings(topic)
        return {0: 1} if topic == TOPICS.dead_letters.name else found


async def test_dead_letters_that_are_gone_stop_nothing(database: str) -> None:
    log = ForgetfulLog()
    await log.ensure(TOPICS.shared)
    writer = RecordWriter("dispatcher", "1")
    for offset in range(3):
        source = Source(topic="trackside.commands", partition=0, offset=offset)
        letter = RecordDeadLettered(
            source=source, code="not_json", message="no", reader="dispatcher", sha256="", head_base64=""
        )
        await log.publish(TOPICS.dead_letters.name, 0, writer.single("x", letter))
    async with running_projections(log, database, "summary-indexer") as rows:
        await rows.caught_up()
    found = await query(database, 'SELECT topic, "offset", code FROM dashboards.dead_letters ORDER BY 2')
    assert found == [("trackside.commands", 1, "not_json"), ("trackside.commands", 2, "not_json")]
    report = await rebuild(log, TOPICS, database)
    assert report.equal
    assert report.rows == {"dead_letters": 2}
