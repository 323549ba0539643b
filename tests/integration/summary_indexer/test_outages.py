"""Postgres and the broker are killed while points are indexed, on a stack of this module's own."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.summary_indexer.harness import (
    Sandbox,
    indexed_points,
    open_sandbox,
    publish_batches,
    until_caught_up,
    until_written,
)
from tests.polling import poll_until
from tests.stack import fresh_database
from trackside.embedded import stack as embedded
from trackside.embedded.stack import Stack
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka import KafkaLog


@pytest.fixture(scope="module")
def killable_stack(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[Stack]:
    """Yields a stack whose servers may be killed; its supervisor restarts them."""
    folder = tmp_path_factory.mktemp("mortal") / "stack"
    yield embedded.start(folder, embedded.StackOptions(durable=False, ephemeral=True, leash=leash))
    embedded.stop(folder)


@pytest.fixture
async def sandbox_and_log(
    killable_stack: Stack, topic_prefix: str, tmp_path: Path
) -> AsyncIterator[tuple[Sandbox, KafkaLog]]:
    with fresh_database(killable_stack.postgres_dsn) as dsn:
        async with open_sandbox(killable_stack.bootstrap_servers, dsn, topic_prefix, tmp_path) as found:
            yield found


@pytest.mark.parametrize("server", ["postgres", "kafka"])
async def test_a_killed_server_costs_no_point_and_no_restart(
    killable_stack: Stack, sandbox: Sandbox, log: KafkaLog, server: str
) -> None:
    indexer = await sandbox.indexer(batch_points="400").start()
    expected = await publish_batches(log, sandbox.topics, tasks=8, batches=30)
    await until_written(sandbox, 1)
    pid = killable_stack.pid(server)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await until_answering(log, sandbox)
    expected |= await publish_batches(log, sandbox.topics, tasks=8, batches=60)
    await until_caught_up(log, sandbox)
    assert await indexed_points(sandbox.dsn) == expected
    assert indexer.is_running


async def until_answering(log: KafkaLog, sandbox: Sandbox) -> None:
    """Waits until the broker answers."""

    async def is_answering() -> bool:
        try:
            await log.ends(sandbox.topics.metrics.name)
        except TransientError:
            return False
        return True

    await poll_until(is_answering)
