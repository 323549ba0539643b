"""A release reads a backup: it makes the rows of the log, and says which streams it can't decide."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.integration.projections.harness import TOPICS
from tests.integration.replay.test_rebuild import index_points
from tests.unit.projections.given import write_small_history
from trackside.cli.app import call
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.log import Outgoing
from trackside.eventlog.memory import MemoryLog
from trackside.projections.postgres import LIVE_SCHEMA, open_repeatable_read
from trackside.replay.rebuild.backup_check import check_backup
from trackside.replay.rebuild.compare import TableSource, table_digest
from trackside.replay.rebuild.rebuild import rebuild, tables_of_owners
from trackside.replay.transfer.backup import add_to_backup
from trackside.replay.transfer.backup_files import check_runs
from trackside.replay.transfer.backup_log import BackupLog

UNKNOWN = [
    ("ce_specversion", b"1.0"),
    ("ce_id", b"of-a-newer-release"),
    ("ce_type", b"trackside.trial-cloned.v1"),
    ("ce_source", b"trackside/dispatcher/next"),
    ("ce_time", b"2026-11-24T18:14:39Z"),
    ("ce_partitionkey", b"open"),
    ("content-type", b"application/json"),
]


async def test_the_tables_made_of_a_backup_have_the_digests_of_the_live_ones(
    log: MemoryLog, database: str, tmp_path: Path
) -> None:
    await index_points(log, database)
    manifest = (await add_to_backup(log, TOPICS, tmp_path)).manifest
    check_runs(tmp_path, manifest, lambda done, total: None)
    report = await check_backup(BackupLog(tmp_path, manifest), TOPICS, database)
    live = await rebuild(log, TOPICS, database)
    assert live.equal
    assert (report.fold.events, report.fold.rows) == (live.events, live.rows)
    async with open_repeatable_read(database, LIVE_SCHEMA) as connection:
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
    asyncio.run(log.append(*place, [Outgoing(b"open", b"{}", UNKNOWN)]))
    asyncio.run(add_to_backup(log, Topics(), folder))
    assert call((*command, "--json")) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["compared"] is False
    assert said["tables"]["metric_points"]["rows"] == 4
    assert len(said["verified"]["parked"]) == 1
    assert "needs a newer release: type trackside.trial-cloned.v1" in said["verified"]["parked"][0]
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]
