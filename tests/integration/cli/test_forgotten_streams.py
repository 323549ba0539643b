"""What lists and pages show of a stream that was forgotten: its counts, and that it was."""

import asyncio

import pytest

from tests.integration.projections.test_forgotten_streams import Rows, forgotten_log
from tests.unit.domain.given import STREAM
from trackside.cli.commands.ls import ls
from trackside.cli.commands.show import show
from trackside.domain.display.selection import Selection
from trackside.projections.postgres import LIVE_SCHEMA
from trackside.projections.postgres import database as opened_database


async def write(dsn: str) -> None:
    """Writes the rows of a stream that was forgotten."""
    records, _ = forgotten_log()
    async with opened_database(dsn, LIVE_SCHEMA) as opened:
        rows = Rows(opened, dsn)
        await rows.prepare()
        await rows.write(records)


def test_lists_and_pages_show_that_a_stream_was_forgotten(
    database: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(write(database))
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", database)
    ls(10, [], False, archived=False)
    listed = capsys.readouterr().out
    (line,) = [line for line in listed.splitlines() if STREAM in line]
    assert line.split()[2:4] == ["FORGOTTEN", "2/2"]
    show(STREAM, Selection(), False)
    shown = capsys.readouterr().out
    assert "FORGOTTEN, was DONE" in shown
    assert "2 trials: 2 SUCCEEDED" in shown
    ls(10, [], True, archived=False)
    show(STREAM, Selection(), True)
    assert capsys.readouterr().out.count('"forgotten": true') == 2
