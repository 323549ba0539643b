"""The same on a real Kafka: rows, rebuild, verification."""

import os
from functools import partial

import pytest

from tests.integration.projections.harness import running_projections
from tests.stack import Servers
from tests.unit.projections.given import write_small_history
from trackside.contracts.topics import Topics
from trackside.eventlog.kafka import KafkaLog
from trackside.replay.history.errors import PartLostError
from trackside.replay.rebuild.parallel_fold import ProcessPool
from trackside.replay.rebuild.rebuild import RebuildProgress, rebuild
from trackside.verify.log import verify


async def test_a_log_on_kafka_is_projected_rebuilt_and_verified(
    stack: Servers, topic_prefix: str, database: str
) -> None:
    topics = Topics(prefix=topic_prefix, event_partitions=3)
    async with KafkaLog(stack.kafka_bootstrap, client_id="replay-test") as log:
        await write_small_history(log, topics)
        owners = ("dispatcher", "scheduler", "summary-indexer")
        async with running_projections(log, database, *owners, topics=topics) as rows:
            await rows.caught_up()
        report = await rebuild(log, topics, database)
        assert report.equal, str(report)
        assert report.events > 100
        assert await verify(log, topics) == []


async def test_a_rebuild_in_several_processes_finds_the_same(
    stack: Servers, topic_prefix: str, database: str
) -> None:
    topics = Topics(prefix=topic_prefix, event_partitions=3)
    open_log = partial(KafkaLog, stack.kafka_bootstrap, client_id="replay-test")
    several = ProcessPool(2, open_log, records_each=1)
    async with open_log() as log:
        await write_small_history(log, topics)
        owners = ("dispatcher", "scheduler", "summary-indexer")
        async with running_projections(log, database, *owners, topics=topics) as rows:
            await rows.caught_up()
        alone = await rebuild(log, topics, database)
        told: list[RebuildProgress] = []
        together = await rebuild(log, topics, database, told.append, processes=several)
        assert together.equal, str(together)
        assert (together.events, together.rows) == (alone.events, alone.rows)
        swapped = await rebuild(log, topics, database, swap=True, processes=several)
        assert swapped.swapped and swapped.equal
        assert (await rebuild(log, topics, database)).equal


async def test_what_goes_wrong_in_one_of_several_processes_is_raised(
    stack: Servers, topic_prefix: str, database: str
) -> None:
    topics = Topics(prefix=topic_prefix, event_partitions=3)
    open_log = partial(KafkaLog, stack.kafka_bootstrap, client_id="replay-test")
    async with open_log() as log:
        await write_small_history(log, topics)
        async with running_projections(log, database, "dispatcher", topics=topics) as rows:
            await rows.caught_up()
        for broken, error in ((failing, RuntimeError), (dying, PartLostError)):
            with pytest.raises(error):
                await rebuild(log, topics, database, processes=ProcessPool(2, broken, records_each=1))
        assert (await rebuild(log, topics, database)).equal


def failing() -> KafkaLog:
    """Stands for a log that can't be opened."""
    raise RuntimeError("no log here")


def dying() -> KafkaLog:
    """Stands for whatever kills a process."""
    os._exit(9)
