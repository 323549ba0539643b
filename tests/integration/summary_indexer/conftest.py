"""Fixtures: a topic prefix with its topics, a log to publish with, and a dispatcher."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.summary_indexer.harness import Sandbox, open_sandbox
from tests.integration.summary_indexer.watched import dispatching
from tests.stack import Servers
from trackside.eventlog.kafka import KafkaLog


@pytest.fixture
async def sandbox_and_log(
    stack: Servers, topic_prefix: str, database: str, tmp_path: Path
) -> AsyncIterator[tuple[Sandbox, KafkaLog]]:
    """Yields the sandbox of this test and its log."""
    async with open_sandbox(stack.kafka_bootstrap, database, topic_prefix, tmp_path) as found:
        yield found


@pytest.fixture
def sandbox(sandbox_and_log: tuple[Sandbox, KafkaLog]) -> Sandbox:
    """Returns the sandbox of this test."""
    return sandbox_and_log[0]


@pytest.fixture
def log(sandbox_and_log: tuple[Sandbox, KafkaLog]) -> KafkaLog:
    """Returns the log of the sandbox."""
    return sandbox_and_log[1]


@pytest.fixture
async def dispatcher(log: KafkaLog, sandbox: Sandbox) -> AsyncIterator[None]:
    """Has a dispatcher decide over the commands of the sandbox."""
    async with dispatching(log, sandbox):
        yield
