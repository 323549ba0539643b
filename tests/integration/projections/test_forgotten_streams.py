"""Rows of a stream that was forgotten: the same with and without its key, and nothing but its counts."""

from collections.abc import Sequence

import pytest

from tests.integration.projections.harness import (
    all_rows,
    append,
    query,
    service_on,
    write_points,
    write_rows,
)
from tests.integration.summaries.given import points
from tests.stack import Servers, database_with_tables, fresh_database
from tests.unit.domain.given import STREAM, received
from tests.unit.domain.plausible_forgetting import without_key
from tests.unit.domain.test_forgetting import decided, ended_search, forget
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics
from trackside.domain.folding.streams import Streams, load
from trackside.eventlog.memory import MemoryLog
from trackside.projections.database.postgres import LIVE_SCHEMA, Database
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.tables.owners import OWNERS
from trackside.projections.writing.row_changes import RowChanges
from trackside.projections.writing.row_writer import RowWriter
from trackside.projections.writing.snapshots import Checkpoint
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

    def __init__(self, opened: Database, dsn: str) -> None:
        self._log = log = MemoryLog()
        names = ("dispatcher", "scheduler")
        self._changes = {name: RowChanges(OWNERS[name], TOPICS) for name in names}
        self._streams = {name: Streams(AGGREGATES) for name in names}
        self._writers = {
            name: RowWriter(OWNERS[name], service_on(log, dsn, TOPICS), opened, lambda _: None, lambda: None)
            for name in names
        }

    async def prepare(self) -> None:
        await self._log.ensure(TOPICS.shared)
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
async def test_a_forgotten_stream_leaves_its_counts_and_later_commands(tables: str, together: bool) -> None:
    records, at = forgotten_log()
    async with opened_database(tables, LIVE_SCHEMA) as opened:
        rows = Rows(opened, tables)
        await rows.prepare()
        if not together:
            await rows.write(records[:at])
            before = await rows_of_stream(tables)
            assert {"searches", "trials", "tasks", "attempts", "placements"} <= set(before)
        await rows.write(records if together else records[at:])
    assert await rows_of_stream(tables) == LEFT
    statement = "SELECT kind, status, unit, ended, total, ends, reason FROM forgotten_streams"
    (row,) = await query(tables, statement)
    reason = "a person has asked for it"
    assert row == ("search", "DONE", "trials", 2, 2, '{"SUCCEEDED": 2}', reason)


async def test_readers_with_and_without_the_key_write_the_same_rows(tables: str, stack: Servers) -> None:
    records, at = forgotten_log()
    with fresh_database(stack.postgres_dsn, database_with_tables()) as other:
        for dsn, read in ((tables, records), (other, [without_key(record) for record in records])):
            async with opened_database(dsn, LIVE_SCHEMA) as opened:
                rows = Rows(opened, dsn)
                await rows.prepare()
                for part in (read[: at // 2], read[at // 2 : at], read[at:]):
                    await rows.write(part)
        assert await all_rows(tables) == await all_rows(other)


async def test_a_rebuild_has_the_same_rows(tables: str) -> None:
    records, at = forgotten_log()
    log = MemoryLog()
    await log.ensure(TOPICS.shared)
    for part in (records[:at], records[at:]):
        await append(log, TOPICS, part)
        await write_rows(log, tables, TOPICS)
    report = await rebuild(log, TOPICS, tables)
    assert report.equal, str(report)
    assert report.rows["forgotten_streams"] == 1
    assert not report.rows.get("trials")


async def test_the_snapshot_is_replaced_and_the_key_deleted_with_the_rows(tables: str) -> None:
    records, at = forgotten_log()
    await query(tables, "CREATE SCHEMA trackside_keys")
    await query(tables, "CREATE TABLE trackside_keys.stream_keys (stream text, secret text)")
    await query(tables, "INSERT INTO trackside_keys.stream_keys VALUES ($1, 'k'), ('other', 'k')", STREAM)
    async with opened_database(tables, LIVE_SCHEMA) as opened:
        rows = Rows(opened, tables)
        await rows.prepare()
        for part in (records[:at], records[at:]):
            await rows.write(part)
    ((state,),) = await query(tables, "SELECT state FROM snapshots WHERE stream_id = $1", STREAM)
    assert load(str(state), AGGREGATES).forgotten is not None
    assert "lr" not in str(state)
    assert await query(tables, "SELECT stream FROM trackside_keys.stream_keys") == [("other",)]


async def test_values_of_tasks_are_removed_and_late_ones_are_not_written(tables: str) -> None:
    records, at = forgotten_log()
    early, other, late = (
        points(f"{stream}.0", "loss", [0.5], step, stream=stream)
        for stream, step in ((STREAM, 1), ("other", 1), (STREAM, 2))
    )
    async with opened_database(tables, LIVE_SCHEMA) as opened:
        rows = Rows(opened, tables)
        await rows.prepare()
        await rows.write(records[:at])
        await write_points(tables, early, other)
        await rows.write(records[at:])
    await write_points(tables, late)
    assert await query(tables, "SELECT task_id FROM metric_series") == [("other.0",)]
    assert await query(tables, "SELECT task_id FROM metric_totals") == [("other.0",)]
    assert await query(tables, "SELECT stream_id FROM summary_briefs") == [("other",)]
    assert await query(tables, "SELECT step FROM metric_points") == [(1,)]
