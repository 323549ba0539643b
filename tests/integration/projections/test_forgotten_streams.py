"""Rows of a stream that was forgotten: the same with and without its key, and nothing but its counts."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.integration.projections.harness import all_rows, query, service_on
from tests.stack import Servers, fresh_database
from tests.unit.domain.given import STREAM, received
from tests.unit.domain.plausible_forgetting import without_key
from tests.unit.domain.test_forgetting import decided, ended_search, forget
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.message import Record
from trackside.contracts.summaries import MetricPointsReported, Series
from trackside.contracts.topics import Topics
from trackside.domain.streams import Streams, load
from trackside.eventlog.log import Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.projections.metric_writes import write_metrics
from trackside.projections.metrics import rows_of
from trackside.projections.owners import OWNERS
from trackside.projections.postgres import LIVE_SCHEMA, Connection, Database
from trackside.projections.postgres import database as opened_database
from trackside.projections.row_changes import RowChanges
from trackside.projections.row_writer import RowWriter
from trackside.projections.snapshots import Checkpoint
from trackside.replay.rebuild.rebuild import rebuild

PARTITIONS = 6
"""With so many, the stream of the tests is in the partition of its records."""
TOPICS = Topics(event_partitions=PARTITIONS)
EVENTS, PARTITION = TOPICS.events.name, 3
LEFT = {"streams": 1, "forgotten_streams": 1, "commands": 2}
"""How many rows of the stream are left, by table."""


def forgotten_log() -> tuple[list[Record], int]:
    """Returns the log of a stream that was forgotten, with a later command, and where it was forgotten."""
    told = ended_search()
    forget(told)
    at = told.next_offset - 1
    told.tell(*decided(told))
    told.tell(received(90))
    told.tell(*decided(told))
    return told.records, at


class Rows:
    """The rows of both owners, written from records as a service does that folds them."""

    def __init__(self, opened: Database, dsn: str, log: MemoryLog | None = None) -> None:
        log = log or MemoryLog()
        names = ("dispatcher", "scheduler")
        self._changes = {name: RowChanges(OWNERS[name], TOPICS) for name in names}
        self._streams = {name: Streams(AGGREGATES) for name in names}
        self._writers = {
            name: RowWriter(OWNERS[name], service_on(log, dsn, TOPICS), opened, lambda _: None, lambda: None)
            for name in names
        }

    async def prepare(self) -> None:
        """Creates the tables."""
        for name, writer in self._writers.items():
            self._changes[name].start(await writer.prepare())

    async def write(self, records: Sequence[Record]) -> None:
        """Folds records, and writes their rows in one transaction for each owner."""
        for name, changes in self._changes.items():
            streams = self._streams[name]
            for record in records:
                stream, outcome = streams.fold(record)
                changes.note(stream, outcome, record)
            position = records[-1].offset + 1
            expected = dict(changes.bases)
            taken = changes.take({(EVENTS, PARTITION): position})
            made: list[Checkpoint] = []
            if changes.unsaved is not None:
                made = [changes.unsaved.take(at, position, streams) for at in changes.unsaved.due(60, 50)]
            await self._writers[name].write(taken, expected, made)


async def rows_of_stream(dsn: str) -> dict[str, int]:
    """Returns how many rows a stream has in each table with rows of streams."""
    columns = {name: at for owner in OWNERS.values() for name, at in owner.stream_columns.items()}
    found = {}
    for table, column in columns.items():
        ((count,),) = await query(dsn, f"SELECT count(*) FROM {table} WHERE {column} = $1", STREAM)  # noqa: S608
        found[table] = count
    return {table: int(str(count)) for table, count in found.items() if count}


@pytest.mark.parametrize("together", [True, False])
async def test_a_forgotten_stream_leaves_its_counts_and_later_commands(database: str, together: bool) -> None:
    records, at = forgotten_log()
    async with opened_database(database, LIVE_SCHEMA) as opened:
        rows = Rows(opened, database)
        await rows.prepare()
        if not together:
            await rows.write(records[:at])
            before = await rows_of_stream(database)
            assert {"searches", "trials", "tasks", "attempts", "placements"} <= set(before)
        await rows.write(records if together else records[at:])
    assert await rows_of_stream(database) == LEFT
    statement = "SELECT kind, status, unit, ended, total, ends, reason FROM forgotten_streams"
    (row,) = await query(database, statement)
    reason = "a person has asked for it"
    assert row == ("search", "DONE", "trials", 2, 2, '{"SUCCEEDED": 2}', reason)


async def test_readers_with_and_without_the_key_write_the_same_rows(database: str, stack: Servers) -> None:
    records, at = forgotten_log()
    with fresh_database(stack.postgres_dsn) as other:
        for dsn, read in ((database, records), (other, [without_key(record) for record in records])):
            async with opened_database(dsn, LIVE_SCHEMA) as opened:
                rows = Rows(opened, dsn)
                await rows.prepare()
                for part in (read[: at // 2], read[at // 2 : at], read[at:]):
                    await rows.write(part)
        assert await all_rows(database) == await all_rows(other)


async def test_a_rebuild_has_the_same_rows(database: str) -> None:
    records, at = forgotten_log()
    log = MemoryLog()
    await log.ensure(TOPICS.shared)
    for record in records:
        headers, value = list(record.envelope.headers.items()), record.message.model_dump_json().encode()
        await log.append(EVENTS, PARTITION, [Outgoing(STREAM.encode(), value, headers)])
    async with opened_database(database, LIVE_SCHEMA) as opened:
        rows = Rows(opened, database, log)
        await rows.prepare()
        appended = [
            replace(record, append_time_ms=await append_time(log, record.offset)) for record in records
        ]
        for part in (appended[:at], appended[at:]):
            await rows.write(part)
    report = await rebuild(log, TOPICS, database)
    assert report.equal, str(report)
    assert report.rows["forgotten_streams"] == 1
    assert not report.rows.get("trials")


async def append_time(log: MemoryLog, offset: int) -> int:
    """Returns when the log has a record from."""
    reader = log.reader({(EVENTS, PARTITION): offset})
    try:
        return (await reader.read(1.0))[0].append_time_ms
    finally:
        await reader.close()


async def test_the_snapshot_is_replaced_and_the_key_deleted_with_the_rows(database: str) -> None:
    records, at = forgotten_log()
    await query(database, "CREATE SCHEMA trackside_keys")
    await query(database, "CREATE TABLE trackside_keys.stream_keys (stream text, secret text)")
    await query(database, "INSERT INTO trackside_keys.stream_keys VALUES ($1, 'k'), ('other', 'k')", STREAM)
    async with opened_database(database, LIVE_SCHEMA) as opened:
        rows = Rows(opened, database)
        await rows.prepare()
        for part in (records[:at], records[at:]):
            await rows.write(part)
    ((state,),) = await query(database, "SELECT state FROM snapshots WHERE stream_id = $1", STREAM)
    assert load(str(state), AGGREGATES).forgotten is not None
    assert "lr" not in str(state)
    assert await query(database, "SELECT stream FROM trackside_keys.stream_keys") == [("other",)]


async def test_values_of_tasks_are_removed_and_late_ones_are_not_written(database: str) -> None:
    records, at = forgotten_log()
    points = [reported(STREAM, 1), reported("other", 1), reported(STREAM, 2)]
    async with opened_database(database, LIVE_SCHEMA) as opened:
        rows = Rows(opened, database)
        await rows.prepare()
        await rows.write(records[:at])
        await write(opened, points[:2])
        await rows.write(records[at:])
        await write(opened, points[2:])
    assert await query(database, "SELECT task_id FROM metric_series") == [("other.0",)]
    assert await query(database, "SELECT task_id FROM metric_totals") == [("other.0",)]
    assert await query(database, "SELECT stream_id FROM summary_briefs") == [("other",)]
    assert await query(database, "SELECT step FROM metric_points") == [(1,)]


def reported(stream: str, step: int) -> MetricPointsReported:
    series = Series(tag="loss", steps=[step], times_ms=[1_000], values=[0.5])
    return MetricPointsReported(stream=stream, task_id=f"{stream}.0", attempt=1, series=[series])


async def write(opened: Database, points: Sequence[MetricPointsReported]) -> None:
    """Writes points as the summary-indexer does."""

    async def work(connection: Connection) -> None:
        await write_metrics(connection, rows_of(points))

    await opened.transaction(work)
