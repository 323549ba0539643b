"""The faust agent alone: an error of its sink ends it and is not swallowed."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.integration.summary_indexer.harness import Sandbox, batch, publish
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Entry
from trackside.eventlog.settings import StackSettings
from trackside.summary_indexer.faust_consumer import ConsumerStopped, run_consumer


class RejectedError(Exception):
    """What the sinks of these tests raise."""


class RejectingSink:
    """Rejects every record."""

    async def assign(self, partitions: set[int]) -> Mapping[int, int]:
        return dict.fromkeys(partitions, 0)

    async def accept(self, entry: Entry) -> None:
        raise RejectedError(entry.offset)


class SinkWithoutPositions:
    """Fails to return positions."""

    async def assign(self, partitions: set[int]) -> Mapping[int, int]:
        raise RejectedError(partitions)

    async def accept(self, entry: Entry) -> None:
        raise AssertionError("nothing may be read")


async def test_a_record_that_is_not_taken_ends_the_consumer(sandbox: Sandbox, log: KafkaLog) -> None:
    await publish(log, sandbox.topics, "s.1", batch("s.1", 0))
    with pytest.raises(RejectedError):
        await consume(sandbox, RejectingSink())


async def test_positions_that_cannot_be_had_end_the_rollup(sandbox: Sandbox, log: KafkaLog) -> None:
    await publish(log, sandbox.topics, "s.1", batch("s.1", 0))
    with pytest.raises(ConsumerStopped, match="RejectedError"):
        await consume(sandbox, SinkWithoutPositions())


async def consume(sandbox: Sandbox, sink: RejectingSink | SinkWithoutPositions) -> None:
    settings = StackSettings(kafka_bootstrap=sandbox.bootstrap, topic_prefix=sandbox.topics.prefix)
    async with asyncio.timeout(60):
        await run_consumer(settings, 6.0, sink)
