"""Fixtures: a log with a small history, and its live rows in an empty database."""

import pytest

from tests.integration.projections.harness import TOPICS, running_projections
from tests.unit.projections.given import write_small_history
from trackside.eventlog.memory import MemoryLog

OWNERS = ("dispatcher", "scheduler", "summary-indexer")


@pytest.fixture
async def log(database: str) -> MemoryLog:
    """Gives a log whose rows are written."""
    written = MemoryLog()
    await write_small_history(written, TOPICS)
    async with running_projections(written, database, *OWNERS) as rows:
        await rows.caught_up()
    return written
