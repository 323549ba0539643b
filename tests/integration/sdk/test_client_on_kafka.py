"""The client and the limits of a real broker, and one that isn't there."""

import pytest

from tests.stack import Servers
from trackside.aggregates.search.messages import StartSearch
from trackside.aggregates.search.space.space import Choice
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.sdk import Client
from trackside.sdk.errors import UnreachableError, UnsendableError


async def test_the_largest_command_that_the_client_lets_pass_is_one_that_the_broker_takes(
    stack: Servers, topic_prefix: str
) -> None:
    async with (
        KafkaLog(stack.kafka_bootstrap, client_id="test") as log,
        Client(stack.kafka_bootstrap, topic_prefix) as client,
    ):
        await log.ensure(Topics(prefix=topic_prefix).shared)

        def wish(size: int) -> dict[str, object]:
            return {"type": "t", "time": "now", "data": {"text": "x" * size}}

        largest, refused = 200_000, 262_144
        while refused - largest > 1:
            middle = (largest + refused) // 2
            try:
                await client.publish(wish(middle), "s1", "c1")
                largest = middle
            except UnsendableError:
                refused = middle
        with pytest.raises(UnsendableError, match="the limit is 262,144"):
            await client.publish(wish(refused), "s1", "c1")


async def test_a_broker_that_is_not_there_is_named_with_the_command() -> None:
    start = StartSearch(task_type="t", max_trials=2, space={"x": Choice(type="choice", values=[1])})
    async with Client("127.0.0.1:1") as client:
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1 .*command c9"):
            await client.publish(start, "s1", "c9", timeout_s=1)
