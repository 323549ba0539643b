"""Fixtures: a log with a small history, and its live rows in an empty database."""

import pytest

from tests.integration.projections.following import TOPICS, running
from tests.unit.projections.histories import small
from trackside.eventlog.memory import MemoryLog

OWNERS = ("dispatcher", "scheduler", "summary-indexer")


@pytest.fixture
async def log(database: str) -> MemoryLog:
    """Gives a log whose rows are written."""
    written = MemoryLog()
    await small(written, TOPICS)
    async with running(written, database, *OWNERS) as rows:
        await rows.caught_up()
    return written
