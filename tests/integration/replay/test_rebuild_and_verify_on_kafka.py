"""The same on a real Kafka: rows, rebuild, verification."""

import os
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from tests.integration.projections.harness import running_projections
from tests.stack import Servers
from tests.unit.projections.given import write_small_history
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.replay.history.errors import PartLostError
from trackside.replay.rebuild.parallel_fold import ProcessPool
from trackside.replay.rebuild.rebuild import rebuild
from trackside.verify.log import verify_topics

OWNERS = ("dispatcher", "scheduler", "summary-indexer")


@pytest.fixture
def topics(topic_prefix: str) -> Topics:
    return Topics(prefix=topic_prefix, event_partitions=3)


@pytest.fixture
def open_log(stack: Servers) -> Callable[[], KafkaLog]:
    return partial(KafkaLog, stack.kafka_bootstrap, client_id="replay-test")


@pytest.fixture
async def log(open_log: Callable[[], KafkaLog], topics: Topics, tables: str) -> AsyncIterator[KafkaLog]:
    """Yields a log whose rows are written."""
    async with open_log() as log:
        await write_small_history(log, topics)
        async with running_projections(log, tables, *OWNERS, topics=topics) as rows:
            await rows.caught_up()
        yield log


async def test_a_log_on_kafka_is_verified_and_rebuilt_also_in_several_processes(
    log: KafkaLog, open_log: Callable[[], KafkaLog], topics: Topics, tables: str
) -> None:
    assert (await verify_topics(log, topics)).findings == []
    alone = await rebuild(log, topics, tables)
    assert alone.equal and alone.events > 100, str(alone)
    together = await rebuild(log, topics, tables, processes=ProcessPool(2, open_log, records_each=1))
    assert together.equal, str(together)
    assert (together.events, together.rows) == (alone.events, alone.rows)


@pytest.mark.long
async def test_several_processes_swap_and_what_goes_wrong_in_one_is_raised(
    log: KafkaLog, open_log: Callable[[], KafkaLog], topics: Topics, tables: str
) -> None:
    for broken, error in ((failing, RuntimeError), (dying, PartLostError)):
        with pytest.raises(error):
            await rebuild(log, topics, tables, processes=ProcessPool(2, broken, records_each=1))
    several = ProcessPool(2, open_log, records_each=1)
    swapped = await rebuild(log, topics, tables, swap=True, processes=several)
    assert swapped.swapped and swapped.equal
    assert (await rebuild(log, topics, tables)).equal


def failing() -> KafkaLog:
    """Stands for a log that can't be opened."""
    raise RuntimeError("no log here")


def dying() -> KafkaLog:
    """Stands for whatever kills a process."""
    os._exit(9)
