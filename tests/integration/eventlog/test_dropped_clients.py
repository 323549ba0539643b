"""What is left of a client that was dropped while the broker was silent: nothing that waits for ever."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.chaos.proxy import Proxy
from tests.polling import elapse, poll_until
from tests.stack import Servers
from trackside.contracts.envelope.topics import Topics
from trackside.embedded.ports import held_ports
from trackside.eventlog.errors import TransientError
from trackside.eventlog.kafka import kafka_log as kafka
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Outgoing

PARTITIONS = 3
WRITERS = 12


def nothing_more_than(before: set[asyncio.Task[Any]]) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return asyncio.all_tasks() <= before

    return holds


async def test_a_producer_that_was_dropped_with_much_to_send_leaves_no_task_behind(
    stack: Servers, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topics(prefix=topic_prefix, event_partitions=PARTITIONS).events
    upstream = int(stack.kafka_bootstrap.rpartition(":")[2])
    with held_ports(1) as (port,), Proxy(port, lambda: upstream) as proxy:
        before = asyncio.all_tasks()
        async with KafkaLog(proxy.address, "dropped") as log:
            await log.ensure([topic])
            for partition in range(PARTITIONS):
                await log.append(topic.name, partition, [Outgoing(b"key", b"first", [])])
            monkeypatch.setattr(kafka, "ANSWER_S", 0.5)
            proxy.hold()
            unanswered = [
                log.append(topic.name, writer % PARTITIONS, [Outgoing(b"key", b"more", [])])
                for writer in range(WRITERS)
            ]
            answers = await asyncio.gather(*unanswered, return_exceptions=True)
        assert [type(answer) for answer in answers] == [TransientError] * WRITERS
        await poll_until(nothing_more_than(before), within_s=30)


async def test_a_request_for_offsets_that_waits_for_another_one_has_all_of_its_time(
    stack: Servers, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = Topics(prefix=topic_prefix).fleet
    upstream = int(stack.kafka_bootstrap.rpartition(":")[2])
    with held_ports(1) as (port,), Proxy(port, lambda: upstream) as proxy:
        async with KafkaLog(proxy.address, "asks") as log:
            await log.ensure([topic])
            offsets = await log.ends(topic.name)
            monkeypatch.setattr(kafka, "ANSWER_S", 0.5)
            proxy.hold()
            first, second = [asyncio.create_task(log.ends(topic.name)) for _ in range(2)]
            await elapse(0)
            monkeypatch.setattr(kafka, "ANSWER_S", 30.0)
            with pytest.raises(TransientError):
                await first
            proxy.flow()
            assert await second == offsets
