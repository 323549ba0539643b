"""Postgres and the broker are killed while points are indexed, on a stack of this module's own."""

import os
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.integration.summary_indexer.process import (
    Place,
    caught_up,
    indexed,
    placed,
    published,
    reached,
)
from tests.stack import fresh_database
from tests.waiting import until
from trackside.embedded import stack as embedded
from trackside.embedded.stack import Stack
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka import KafkaLog


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[Stack]:
    """Gives a stack whose servers may be killed; its supervisor starts them again."""
    folder = tmp_path_factory.mktemp("mortal") / "stack"
    yield embedded.start(folder, embedded.StackOptions(durable=False, ephemeral=True, leash=leash))
    embedded.stop(folder)


@pytest.fixture
async def placed_log(
    mortal: Stack, topic_prefix: str, tmp_path: Path
) -> AsyncIterator[tuple[Place, KafkaLog]]:
    with fresh_database(mortal.postgres_dsn) as dsn:
        async with placed(mortal.bootstrap_servers, dsn, topic_prefix, tmp_path) as found:
            yield found


@pytest.mark.parametrize("server", ["postgres", "kafka"])
async def test_a_killed_server_costs_no_point_and_no_restart(
    mortal: Stack, place: Place, log: KafkaLog, server: str
) -> None:
    indexer = await place.indexer(batch_points="400").start()
    expected = await published(log, place.topics, tasks=8, batches=30)
    await reached(place, 1)
    pid = mortal.pid(server)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await answering_again(log, place)
    expected |= await published(log, place.topics, tasks=8, batches=60)
    await caught_up(log, place)
    assert await indexed(place.dsn) == expected
    assert indexer.runs


async def answering_again(log: KafkaLog, place: Place) -> None:
    """Waits until the broker answers."""

    async def answers() -> bool:
        try:
            await log.ends(place.topics.metrics.name)
        except TransientError:
            return False
        return True

    await until(answers)
