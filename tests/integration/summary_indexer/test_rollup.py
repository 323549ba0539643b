"""The faust agent by itself: what goes wrong behind it ends it, and isn't swallowed."""

import asyncio
from collections.abc import Mapping

import pytest

from tests.integration.summary_indexer.process import Place, batch, publish
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Entry
from trackside.eventlog.settings import StackSettings
from trackside.summary_indexer.rollup import RollupStopped, run_rollup


class DeafError(Exception):
    """What the sinks of these tests raise."""


class Deaf:
    """Refuses every record."""

    async def begin(self, partitions: set[int]) -> Mapping[int, int]:
        return dict.fromkeys(partitions, 0)

    async def accept(self, entry: Entry) -> None:
        raise DeafError(entry.offset)


class Lost:
    """Knows no positions."""

    async def begin(self, partitions: set[int]) -> Mapping[int, int]:
        raise DeafError(partitions)

    async def accept(self, entry: Entry) -> None:
        raise AssertionError("nothing may be read")


async def test_a_record_that_is_not_taken_ends_the_rollup(place: Place, log: KafkaLog) -> None:
    await publish(log, place.topics, "s.1", batch("s.1", 0))
    with pytest.raises(DeafError):
        await rolled_up(place, Deaf())


async def test_positions_that_cannot_be_had_end_the_rollup(place: Place, log: KafkaLog) -> None:
    await publish(log, place.topics, "s.1", batch("s.1", 0))
    with pytest.raises(RollupStopped, match="DeafError"):
        await rolled_up(place, Lost())


async def rolled_up(place: Place, sink: Deaf | Lost) -> None:
    settings = StackSettings(kafka_bootstrap=place.bootstrap, topic_prefix=place.topics.prefix)
    async with asyncio.timeout(60):
        await run_rollup(settings, 6.0, sink)
