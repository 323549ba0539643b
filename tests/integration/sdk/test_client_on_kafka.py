"""The client on a real broker: publishing, being answered, following, and a broker that isn't there."""

import asyncio

import pytest

from tests.stack import Servers
from trackside.aggregates.search.messages import (
    SearchEnded,
    SearchStarted,
    SearchStatus,
    SearchStopRequested,
    StartSearch,
)
from trackside.aggregates.search.space import Choice
from trackside.contracts.commands import CommandAccepted, CommandReceived
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.record_writer import RecordWriter
from trackside.sdk import Client
from trackside.sdk.errors import UnreachableError, UnsendableError
from trackside.sdk.publication import Accepted, PublishedCommand

START = StartSearch(task_type="t", max_trials=2, space={"x": Choice(type="choice", values=[1])})
DISPATCHER = RecordWriter("dispatcher", "1")


async def answered(log: KafkaLog, topics: Topics, publication: PublishedCommand) -> None:
    """Answers a publication as a dispatcher does, and starts its search."""
    received = CommandReceived(
        command_id=publication.command_id,
        command_type=START.wire_type(),
        body=START.model_dump(mode="json"),
        digest="d",
        source=publication.source,
        publisher="test",
        rules=1,
    )
    accepted = CommandAccepted(command_id=publication.command_id, source=publication.source)
    started = SearchStarted(command_id=publication.command_id, search=START, seed=1)
    place = (topics.events.name, partition_of(publication.stream_id, topics.events.partitions))
    await log.append(*place, DISPATCHER.decision(publication.stream_id, [received]))
    await log.append(*place, DISPATCHER.decision(publication.stream_id, [accepted, started]))


async def ended(log: KafkaLog, topics: Topics, stream_id: str) -> None:
    """Stops the search of a stream."""
    place = (topics.events.name, partition_of(stream_id, topics.events.partitions))
    stop = SearchStopRequested(command_id="c2", reason="enough")
    await log.append(*place, DISPATCHER.decision(stream_id, [stop]))
    over = SearchEnded(status=SearchStatus.STOPPED, trials=0)
    await log.append(*place, DISPATCHER.decision(stream_id, [over]))


async def test_a_command_is_published_answered_and_followed_to_its_end(
    stack: Servers, topic_prefix: str
) -> None:
    topics = Topics(prefix=topic_prefix)
    async with (
        KafkaLog(stack.kafka_bootstrap, client_id="test") as log,
        Client(stack.kafka_bootstrap, topic_prefix) as client,
    ):
        await log.ensure(topics.shared)
        publication = await client.publish(START, "s1", "c1")
        waiting = asyncio.create_task(client.wait("s1", 60))
        answer = asyncio.create_task(client.answer(publication, 60))
        await answered(log, topics, publication)
        assert await answer == Accepted("c1", 1)
        again = await client.publish(START, "s1", "c1")
        assert again.source != publication.source and again.events_from == 3
        await ended(log, topics, "s1")
        stream = await waiting
        assert stream.root is not None and stream.root.status is SearchStatus.STOPPED
        assert [record.offset async for record in client.events("s1")] == [0, 1, 2, 3, 4]
        assert (await client.fleet()).workers == {}


async def test_the_largest_command_that_the_client_lets_pass_is_one_that_the_broker_takes(
    stack: Servers, topic_prefix: str
) -> None:
    topics = Topics(prefix=topic_prefix)
    async with (
        KafkaLog(stack.kafka_bootstrap, client_id="test") as log,
        Client(stack.kafka_bootstrap, topic_prefix) as client,
    ):
        await log.ensure(topics.shared)

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
    async with Client("127.0.0.1:1") as client:
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1 .*command c9"):
            await client.publish(START, "s1", "c9", timeout_s=1)


def test_the_blocking_form_follows_a_stream(stack: Servers, topic_prefix: str) -> None:
    topics = Topics(prefix=topic_prefix)

    async def play(publication: PublishedCommand) -> None:
        async with KafkaLog(stack.kafka_bootstrap, client_id="test") as log:
            await answered(log, topics, publication)
            await ended(log, topics, publication.stream_id)

    async def prepare() -> None:
        async with KafkaLog(stack.kafka_bootstrap, client_id="test") as log:
            await log.ensure(topics.shared)

    asyncio.run(prepare())
    with Client.blocking(stack.kafka_bootstrap, topic_prefix) as client:
        publication = client.publish(START, "s1")
        asyncio.run(play(publication))
        assert isinstance(client.answer(publication), Accepted)
        assert client.wait("s1", 60).closed
        assert len(list(client.events("s1"))) == 5
