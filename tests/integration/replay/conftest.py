"""Fixtures: logs with a small history, in memory with its live rows, and on Kafka."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.projections.harness import Written
from tests.integration.replay.backed_up_log import Given
from tests.stack import Servers
from tests.unit.projections.given import write_small_history
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log_id import begin_log
from trackside.eventlog.memory import MemoryLog


@pytest.fixture
def log(written: Written) -> MemoryLog:
    return written.log


@pytest.fixture
def rows(written: Written) -> str:
    return written.dsn


@pytest.fixture
def event_partitions() -> int:
    """Returns how many partitions the events have: few, which are made fast."""
    return 3


@pytest.fixture
async def given(
    stack: Servers, topic_prefix: str, tmp_path: Path, event_partitions: int
) -> AsyncIterator[Given]:
    """Returns a log on Kafka with a small history, and an empty folder for its backup."""
    topics = Topics(prefix=topic_prefix, event_partitions=event_partitions)
    folder = tmp_path / "backup"
    folder.mkdir()
    async with KafkaLog(stack.kafka_bootstrap, client_id="backup-test") as log:
        await log.ensure([topics.fleet])
        await begin_log(log, topics)
        await log.ensure(topics.shared)
        await write_small_history(log, topics)
        yield Given(log, stack.kafka_bootstrap, topics, folder)
