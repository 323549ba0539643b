"""A rebuild from the log or a backup alone: equal to the live rows, or it says what is not."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.integration.cli.test_repair import foreign
from tests.integration.projections.harness import TOPICS, Written, all_rows, query, running_projections
from tests.unit.projections.given import HistoryWriter, write_small_history
from trackside.cli.app import call
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.eventlog.errors import AnotherLogError
from trackside.eventlog.memory import MemoryLog
from trackside.projections.database.positions import ensure_positions, move_position
from trackside.projections.database.postgres import LIVE_SCHEMA, open_repeatable_read
from trackside.projections.database.postgres import database as opened_database
from trackside.projections.tables.metrics import rows_of
from trackside.projections.writing.metric_writes import write_metrics
from trackside.replay.rebuild.backup_check import check_backup
from trackside.replay.rebuild.compare import TableSource, table_digest
from trackside.replay.rebuild.rebuild import rebuild, tables_of_owners
from trackside.replay.rebuild.upgrade_check import check_upgrade
from trackside.replay.transfer.backup import add_to_backup
from trackside.replay.transfer.backup_files import check_runs
from trackside.replay.transfer.backup_log import BackupLog
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


async def test_a_rebuild_is_equal_and_leaves_nothing_behind(log: MemoryLog, rows: str) -> None:
    await index_points(log, rows)
    report = await rebuild(log, TOPICS, rows)
    assert report.equal, str(report)
    ends = [await log.ends(t.name) for t in (TOPICS.events, TOPICS.fleet, TOPICS.metrics)]
    assert report.events == sum(sum(end.values()) for end in ends)
    assert report.rows["metric_points"] == 4
    assert str(report) == f"replay: {report.events} events, {sum(report.rows.values())} rows, equal"
    assert {name: len(found) for name, found in (await all_rows(rows)).items() if found} == report.rows
    assert await query(rows, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'rebuild%'") == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE trials SET value = 0.25 WHERE task_id = 'one.2'", "trials, key (one, 2), column value"),
        ("UPDATE tasks SET result = '{}' WHERE trial = 0", "tasks, key (one.0, one), column result"),
        ("DELETE FROM attempts WHERE task_id = 'two.1'", "attempts, key (two.1, two, 1): live 'no such row'"),
        ("INSERT INTO devices VALUES ('w1', 'a', 'cpu', 'x', 1)", "devices, key (w1, a): live {"),
    ],
)
async def test_one_changed_cell_is_named(log: MemoryLog, rows: str, change: str, said: str) -> None:
    await query(rows, change)
    report = await rebuild(log, TOPICS, rows)
    assert not report.equal
    assert said in str(report)


async def test_one_changed_record_is_named(log: MemoryLog, rows: str) -> None:
    for partition in await log.ends(TOPICS.events.name):
        for entry in log._partition(TOPICS.events.name, partition):
            if entry.value and b'"step":4,' in entry.value and b'"one.2"' in entry.value:
                entry.value = entry.value.replace(b'"value":0.', b'"value":0.0')
    report = await rebuild(log, TOPICS, rows)
    assert "table trials, key (one, 2), column" in str(report)


async def test_owners_at_different_positions_are_each_compared_at_their_own(
    log: MemoryLog, rows: str
) -> None:
    history = HistoryWriter(log, TOPICS)
    await history.search("later", lost=0)
    await history.search("one-more")
    async with running_projections(log, rows, "scheduler") as following:
        await following.caught_up()
    report = await rebuild(log, TOPICS, rows)
    assert report.equal, str(report)
    assert sum(report.live["scheduler"].values()) > sum(report.live["dispatcher"].values())


async def test_rows_of_another_log_are_refused(kept: Written) -> None:
    other = MemoryLog()
    await other.ensure(TOPICS.shared)
    with pytest.raises(AnotherLogError, match="not of this log"):
        await rebuild(other, TOPICS, kept.dsn)


async def test_artifacts_have_rows_of_all_versions_and_say_when_their_stream_forgot_them(
    log: MemoryLog, rows: str
) -> None:
    found = await query(
        rows,
        "SELECT task_id, trial, attempt, name, version, step, forgotten_at IS NOT NULL "
        "FROM dashboards.artifacts WHERE stream_id = 'one' ORDER BY log_offset",
    )
    nul = "weights\ufffd"
    assert found == [
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
        rows,
        "SELECT use, name, task_id, source, credential, step FROM dashboards.artifact_uses "
        "WHERE stream_id = 'one' ORDER BY 1",
    )
    assert uses == [
        ("checkpoint", "checkpoint", "one.1", "digits-1/digits-1.3/checkpoint@2", None, 10),
        ("input", "digits", "one.0", "prepare-1/prepare-1.1.1/digits@1", "datasets", None),
    ]


async def test_a_check_of_an_upgrade_counts_what_would_change_and_changes_nothing(
    log: MemoryLog, rows: str
) -> None:
    await index_points(log, rows)
    report = await check_upgrade(log, TOPICS, rows)
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
        await query(rows, change)
    before = await all_rows(rows)
    report = await check_upgrade(log, TOPICS, rows)
    assert report.made_again == ["scheduler"]
    said = {change.table: str(change) for change in report.changes}
    assert "2 rows changed; first: table trials, key (one, 1), column value" in said["trials"]
    assert "1 rows added; first: table attempts, key (two.1, two, 1)" in said["attempts"]
    assert "1 rows removed; first: table devices, key (w1, a)" in said["devices"]
    assert said["tasks"] == "table tasks: new columns result, without columns former"
    assert len(said) == 4 and str(report).endswith("4 rows in 4 tables would change")
    assert await all_rows(rows) == before


async def test_the_tables_made_of_a_backup_have_the_digests_of_the_live_ones(
    log: MemoryLog, rows: str, tmp_path: Path
) -> None:
    await index_points(log, rows)
    manifest = (await add_to_backup(log, TOPICS, tmp_path)).manifest
    check_runs(tmp_path, manifest, lambda done, total: None)
    report = await check_backup(BackupLog(tmp_path, manifest), TOPICS, rows)
    live = await rebuild(log, TOPICS, rows)
    assert live.equal
    assert (report.fold.events, report.fold.rows) == (live.events, live.rows)
    async with open_repeatable_read(rows, LIVE_SCHEMA) as connection:
        digests = {
            table.name: (await table_digest(table, TableSource(connection))).hex()
            for table in tables_of_owners()
        }
    assert {each.table: each.sha256 for each in report.tables} == digests
    assert {each.table: each.rows for each in report.tables if each.rows} == live.rows


def test_a_backup_is_checked_by_a_command_without_any_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, log = tmp_path / "backup", MemoryLog()
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    command = ("upgrade", "--check", "--backup", str(folder))
    assert call(command) == 1
    assert "has no backup" in capsys.readouterr().err

    asyncio.run(write_small_history(log, Topics()))
    asyncio.run(add_to_backup(log, Topics(), folder))
    assert call(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("metric_points") and " 4 " in line for line in lines)
    assert lines[-2].startswith("not compared: a backup has no read models")
    assert "no stream is parked; nothing found in" in lines[-1]

    place = (Topics().events.name, partition_of("open", 12))
    asyncio.run(log.append(*place, [foreign("open", b"trackside.trial-cloned.v1")]))
    asyncio.run(add_to_backup(log, Topics(), folder))
    assert call((*command, "--json")) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["compared"] is False
    assert said["tables"]["metric_points"]["rows"] == 4
    assert len(said["verified"]["parked"]) == 1
    assert "needs a newer release: type trackside.trial-cloned.v1" in said["verified"]["parked"][0]
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]
