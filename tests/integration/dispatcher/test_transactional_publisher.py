"""A publisher that writes commands in Kafka transactions, as many exactly-once pipelines do."""

import json

from aiokafka import AIOKafkaProducer

from tests.integration.dispatcher.harness import START, Publisher, RunningDispatcher, valid_search
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, Source


async def sent(producer: AIOKafkaProducer, dispatcher: RunningDispatcher) -> Source:
    stream, topic = new_id("s"), dispatcher.topics.commands.name
    headers = [("ce_id", new_id().encode()), ("ce_type", START.encode()), ("ce_source", b"pipeline")]
    value = json.dumps(valid_search()).encode()
    found = await producer.send_and_wait(topic, value, key=stream.encode(), headers=headers, partition=2)
    return Source(topic=topic, partition=2, offset=found.offset)


async def test_a_committed_command_is_obeyed_and_an_aborted_one_was_never_said(
    publisher: Publisher, dispatcher: RunningDispatcher
) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=dispatcher.settings.kafka_bootstrap, transactional_id=new_id("pipeline")
    )
    await producer.start()
    try:
        await producer.begin_transaction()
        aborted = await sent(producer, dispatcher)
        await producer.abort_transaction()
        async with producer.transaction():
            committed = await sent(producer, dispatcher)
    finally:
        await producer.stop()
    assert isinstance(await publisher.answer(committed), CommandAccepted)
    # The topic ends with the transaction's marker now, which no client reads: a restart must not wait for it.
    dispatcher.service.restart()
    await publisher.assert_well()
    received = [r.message.source for r in publisher.records if isinstance(r.message, CommandReceived)]
    assert aborted not in received
