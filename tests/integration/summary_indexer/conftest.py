"""Fixtures: a topic prefix with its topics, and a log to publish with."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.summary_indexer.process import Place, placed
from tests.stack import Servers
from trackside.eventlog.kafka import KafkaLog


@pytest.fixture
async def placed_log(
    stack: Servers, topic_prefix: str, database: str, tmp_path: Path
) -> AsyncIterator[tuple[Place, KafkaLog]]:
    """Gives this test's place and the log there."""
    async with placed(stack.kafka_bootstrap, database, topic_prefix, tmp_path) as found:
        yield found


@pytest.fixture
def place(placed_log: tuple[Place, KafkaLog]) -> Place:
    """Gives this test's place."""
    return placed_log[0]


@pytest.fixture
def log(placed_log: tuple[Place, KafkaLog]) -> KafkaLog:
    """Gives the log of this test's place."""
    return placed_log[1]
