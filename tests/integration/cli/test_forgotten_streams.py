"""What lists and pages show of a stream that was forgotten: its counts, and that it was."""

import asyncio

import pytest

from tests.integration.command_line import said
from tests.integration.projections.test_forgotten_streams import Rows, forgotten_log
from tests.unit.domain.given import STREAM
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
    tables: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(write(tables))
    monkeypatch.setenv("TRACKSIDE_POSTGRES_DSN", tables)
    (line,) = [line for line in said(capsys, "ls").splitlines() if STREAM in line]
    assert line.split()[2:4] == ["FORGOTTEN", "2/2"]
    shown = said(capsys, "show", STREAM)
    assert "FORGOTTEN, was DONE" in shown and "2 trials: 2 SUCCEEDED" in shown
    for command in (("ls",), ("show", STREAM)):
        assert '"forgotten": true' in said(capsys, *command, "--json")
