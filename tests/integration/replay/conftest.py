"""Fixtures: a log with a small history, and its live rows in an empty database."""

import pytest

from tests.integration.projections.following import TOPICS, caught_up, running
from tests.unit.projections.histories import small
from trackside.eventlog.memory import MemoryLog

OWNERS = ("dispatcher", "scheduler", "summary-indexer")


@pytest.fixture
async def log(database: str) -> MemoryLog:
    """Gives a log whose rows are written."""
    written = MemoryLog()
    await small(written, TOPICS)
    async with running(written, database, *OWNERS):
        await caught_up(written, database, *OWNERS)
    return written
