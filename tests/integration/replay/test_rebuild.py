"""A rebuild from the log alone: equal to the live rows, or it says what is not."""

import asyncio

import pytest

from tests.integration.projections.harness import TOPICS, all_rows, query, running_projections
from tests.integration.replay.backed_up_log import OWNERS
from tests.unit.projections.given import HistoryWriter
from trackside.eventlog.memory import MemoryLog
from trackside.projections.metric_writes import write_metrics
from trackside.projections.metrics import rows_of
from trackside.projections.positions import ensure_positions, move_position
from trackside.projections.postgres import database as opened_database
from trackside.replay.rebuild.parallel_fold import LogTooShortError
from trackside.replay.rebuild.rebuild import rebuild
from trackside.replay.rebuild.upgrade_check import check_upgrade
from trackside.summary_indexer.validation import decode_summaries


async def index_points(log: MemoryLog, dsn: str) -> None:
    """Writes the rows of all points, as the summary indexer does."""
    topic = TOPICS.metrics
    async with opened_database(dsn) as opened:
        for partition, end in (await log.ends(topic.name)).items():
            if not end:
                continue
            place = (topic.name, partition)
            messages = [decode_summaries(e) for e in await log.reader({place: 0}).read(1.0)]

            async def work(connection, place=place, end=end, messages=messages):  # type: ignore[no-untyped-def]
                await ensure_positions(connection, "summary-indexer", [place])
                await move_position(connection, "summary-indexer", place, 0, end)
                await write_metrics(connection, rows_of(messages))

            await opened.transaction(work)


async def test_a_rebuild_is_equal_and_leaves_nothing_behind(log: MemoryLog, database: str) -> None:
    await index_points(log, database)
    report = await rebuild(log, TOPICS, database)
    assert report.equal, str(report)
    ends = [await log.ends(t.name) for t in (TOPICS.events, TOPICS.fleet, TOPICS.metrics)]
    assert report.events == sum(sum(end.values()) for end in ends)
    assert report.rows["metric_points"] == 4
    assert str(report) == f"replay: {report.events} events, {sum(report.rows.values())} rows, equal"
    assert {name: len(rows) for name, rows in (await all_rows(database)).items() if rows} == report.rows
    schemas = await query(database, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'rebuild%'")
    assert schemas == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE trials SET value = 0.25 WHERE task_id = 'one.2'", "trials, key (one, 2), column value"),
        ("UPDATE tasks SET result = '{}' WHERE trial = 0", "tasks, key (one.0, one), column result"),
        ("DELETE FROM attempts WHERE task_id = 'two.1'", "attempts, key (two.1, two, 1): live 'no such row'"),
        ("INSERT INTO devices VALUES ('w1', 'a', 'cpu', 'x', 1)", "devices, key (w1, a): live {"),
    ],
)
async def test_one_changed_cell_is_named(log: MemoryLog, database: str, change: str, said: str) -> None:
    await query(database, change)
    report = await rebuild(log, TOPICS, database)
    assert not report.equal
    assert said in str(report)


async def test_one_changed_record_is_named(log: MemoryLog, database: str) -> None:
    for partition in await log.ends(TOPICS.events.name):
        for entry in log._partition(TOPICS.events.name, partition):
            if entry.value and b'"step":4,' in entry.value and b'"one.2"' in entry.value:
                entry.value = entry.value.replace(b'"value":0.', b'"value":0.0')
    report = await rebuild(log, TOPICS, database)
    assert "table trials, key (one, 2), column" in str(report)


async def test_owners_at_different_positions_are_each_compared_at_their_own(
    log: MemoryLog, database: str
) -> None:
    history = HistoryWriter(log, TOPICS)
    await history.search("later", lost=0)
    await history.search("one-more")
    async with running_projections(log, database, "scheduler") as rows:
        await rows.caught_up()
    report = await rebuild(log, TOPICS, database)
    assert report.equal, str(report)
    assert sum(report.live["scheduler"].values()) > sum(report.live["dispatcher"].values())


async def test_a_swap_puts_the_rebuilt_rows_in_place_while_services_run(
    log: MemoryLog, database: str
) -> None:
    await query(database, "UPDATE trials SET value = 0.25 WHERE task_id = 'one.2'")
    async with running_projections(log, database, *OWNERS) as rows:
        report = await rebuild(log, TOPICS, database, swap=True)
        assert not report.equal
        await HistoryWriter(log, TOPICS).search("after")
        await rows.caught_up()
    found = await query(database, "SELECT value FROM dashboards.trials WHERE task_id = 'one.2'")
    assert found != [(0.25,)]
    assert len(await query(database, "SELECT * FROM dashboards.trials WHERE search_id = 'after'")) == 3
    assert (await rebuild(log, TOPICS, database)).equal


async def test_a_rebuild_while_services_write_is_equal_at_its_cut(log: MemoryLog, database: str) -> None:
    history = HistoryWriter(log, TOPICS)

    async def go_on() -> None:
        for number in range(20):
            await history.search(f"more{number}", lost=0)
            await asyncio.sleep(0)

    async with running_projections(log, database, *OWNERS):
        going = asyncio.create_task(go_on())
        reports = [await rebuild(log, TOPICS, database) for _ in range(3)]
        await going
    assert [str(report) for report in reports if not report.equal] == []


async def test_rows_of_another_log_are_refused(database: str, log: MemoryLog) -> None:
    other = MemoryLog()
    await other.ensure(TOPICS.shared)
    with pytest.raises(LogTooShortError, match="not of this log"):
        await rebuild(other, TOPICS, database)


async def test_artifacts_have_rows_of_all_versions_and_say_when_their_stream_forgot_them(
    log: MemoryLog, database: str
) -> None:
    rows = await query(
        database,
        "SELECT task_id, trial, attempt, name, version, step, forgotten_at IS NOT NULL "
        "FROM dashboards.artifacts WHERE stream_id = 'one' ORDER BY log_offset",
    )
    nul = "weights\ufffd"
    assert rows == [
        ("one.0", 0, 1, nul, 1, None, False),
        ("one.0", 0, 1, "checkpoint", 1, 2, True),
        ("one.1", 1, 1, nul, 1, None, False),
        ("one.1", 1, 1, "checkpoint", 1, 2, False),
        ("one.1", 1, 2, nul, 2, None, False),
        ("one.1", 1, 2, "checkpoint", 2, 2, False),
        ("one.2", 2, 1, nul, 1, None, True),
        ("one.2", 2, 1, "checkpoint", 1, 2, False),
    ]
    uses = await query(
        database,
        "SELECT use, name, task_id, source, credential, step FROM dashboards.artifact_uses "
        "WHERE stream_id = 'one' ORDER BY 1",
    )
    assert uses == [
        ("checkpoint", "checkpoint", "one.1", "digits-1/digits-1.3/checkpoint@2", None, 10),
        ("input", "digits", "one.0", "prepare-1/prepare-1.1.1/digits@1", "datasets", None),
    ]


async def test_a_check_of_an_upgrade_counts_what_would_change_and_changes_nothing(
    log: MemoryLog, database: str
) -> None:
    await index_points(log, database)
    report = await check_upgrade(log, TOPICS, database)
    assert (report.changes, report.made_again) == ([], [])
    assert str(report).endswith("rows; nothing changes")
    for change in (
        "UPDATE trials SET value = 0.25 WHERE task_id IN ('one.1', 'one.2')",
        "DELETE FROM attempts WHERE task_id = 'two.1'",
        "INSERT INTO devices VALUES ('w1', 'a', 'cpu', 'x', 1)",
        "ALTER TABLE tasks DROP COLUMN result CASCADE",
        "ALTER TABLE tasks ADD COLUMN former text",
        "UPDATE definitions SET digest = 'of another release' WHERE owner = 'scheduler'",
    ):
        await query(database, change)
    before = await all_rows(database)
    report = await check_upgrade(log, TOPICS, database)
    assert report.made_again == ["scheduler"]
    said = {change.table: str(change) for change in report.changes}
    assert "2 rows changed; first: table trials, key (one, 1), column value" in said["trials"]
    assert "1 rows added; first: table attempts, key (two.1, two, 1)" in said["attempts"]
    assert "1 rows removed; first: table devices, key (w1, a)" in said["devices"]
    assert said["tasks"] == "table tasks: new columns result, without columns former"
    assert len(said) == 4 and str(report).endswith("4 rows in 4 tables would change")
    assert await all_rows(database) == before
