"""What the records of real clients look like: each of these forms is read as the same command."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaProducer

from tests.integration.dispatcher.harness import START, Publisher, RunningDispatcher, valid_search
from trackside.aggregates.search.messages import StartSearch
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.topics import MAX_COMMAND_BYTES
from trackside.contracts.streams.commands import CommandAccepted, Source
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Outgoing
from trackside.sdk import Client

Headers = list[tuple[str, bytes]]
CODECS = ("zstd", *(pytest.param(name, marks=pytest.mark.long) for name in ("gzip", "snappy", "lz4")))
JSON_TYPE = ("content-type", b"application/json")
STRUCTURED = ("content-type", b"application/cloudevents+json")


def binary(stream: str) -> Headers:
    return [
        ("ce_specversion", b"1.0"),
        ("ce_id", new_id().encode()),
        ("ce_type", START.encode()),
        ("ce_source", b"https://example.org/wire"),
        ("ce_partitionkey", stream.encode()),
    ]


def event(stream: str, **more: object) -> Json:
    own = {"specversion": "1.0", "id": new_id(), "type": START, "source": "wire", "partitionkey": stream}
    return {**own, "data": valid_search(), **more}


class WirePublisher:
    """Writes records as they are."""

    def __init__(self, log: KafkaLog, dispatcher: RunningDispatcher, publisher: Publisher) -> None:
        self._log = log
        self._publisher = publisher
        self.topic = dispatcher.topics.commands.name

    async def accepts(
        self, headers: Headers, value: Json, key: str | None = None, partition: int = 0
    ) -> None:
        octets = None if key is None else key.encode()
        record = Outgoing(octets, json.dumps(value).encode(), headers)
        appended = await self._log.publish(self.topic, partition, record)
        source = Source(topic=self.topic, partition=partition, offset=appended.offset)
        answer = await self._publisher.answer(source)
        assert isinstance(answer, CommandAccepted), answer


@pytest.fixture
async def wire(dispatcher: RunningDispatcher, publisher: Publisher) -> AsyncIterator[WirePublisher]:
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "wire") as log:
        yield WirePublisher(log, dispatcher, publisher)


BINARY: dict[str, Headers] = {
    "content type twice": [JSON_TYPE, JSON_TYPE],
    "an empty one too": [("content-type", b""), ("Content-Type", b"application/json")],
    "content type as an attribute": [("ce_datacontenttype", b"application/json")],
    "BI-25 the year 1900": [("ce_time", b"1900-01-01T00:00:00Z")],
    "BI-25 the year 3000": [("ce_time", b"3000-01-01T00:00:00Z")],
    "BI-25 no time at all": [("ce_time", b"yesterday \xff")],
    "extensions": [("ce_dataschema", b"x"), ("ce_team", b"\xff"), ("b3", b"0")],
}
STRUCTURED_FORMS: dict[str, Headers] = {
    "capitals": [("Content-Type", b"Application/CloudEvents+JSON;charset=UTF-8")],
    "twice": [STRUCTURED, STRUCTURED],
    "twice, differing": [STRUCTURED, JSON_TYPE],
    "twice, differing, the other way round": [JSON_TYPE, STRUCTURED],
    "the client's default": [JSON_TYPE],
}


@pytest.mark.parametrize("form", BINARY)
async def test_a_binary_command_may_have_its_headers_in_any_way(wire: WirePublisher, form: str) -> None:
    headers = [*binary(new_id("w")), *BINARY[form]]
    await wire.accepts(headers, valid_search())
    again = [*binary(new_id("w")), *BINARY[form]]
    await wire.accepts(again[::-1], valid_search())


async def test_names_of_headers_may_be_in_capitals(wire: WirePublisher) -> None:
    await wire.accepts([(name.upper(), octets) for name, octets in binary(new_id("w"))], valid_search())


@pytest.mark.parametrize("form", STRUCTURED_FORMS)
async def test_a_structured_command_is_known_by_its_type_or_by_itself(wire: WirePublisher, form: str) -> None:
    value = event(new_id("w"), datacontenttype="application/json", team="vision")
    await wire.accepts(STRUCTURED_FORMS[form], value)


async def test_any_partition_will_do(wire: WirePublisher) -> None:
    for partition in range(4):
        stream = new_id("w")
        await wire.accepts([*binary(stream), JSON_TYPE], valid_search(), stream, partition)
        await wire.accepts([STRUCTURED], event(new_id("w")), None, partition)


async def _sent(dispatcher: RunningDispatcher, stream: str, **options: object) -> Source:
    producer = AIOKafkaProducer(bootstrap_servers=dispatcher.settings.kafka_bootstrap, **options)
    topic = dispatcher.topics.commands.name
    async with producer:
        sent = await producer.send_and_wait(
            topic, json.dumps(valid_search()).encode(), key=stream.encode(), headers=binary(stream)
        )
    return Source(topic=topic, partition=sent.partition, offset=sent.offset)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
async def test_any_codec_of_kafka_will_do(
    dispatcher: RunningDispatcher, publisher: Publisher, codec: str, idempotent: bool
) -> None:
    source = await _sent(dispatcher, new_id("w"), compression_type=codec, enable_idempotence=idempotent)
    assert isinstance(await publisher.answer(source), CommandAccepted)


async def test_bi_14_a_bomb_is_refused_by_the_broker_however_small_it_was_packed(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=dispatcher.settings.kafka_bootstrap, compression_type="zstd", max_request_size=2**27
    )
    async with producer:
        with pytest.raises(Exception, match=r"(?i)large|corrupt|invalid"):
            await producer.send_and_wait(dispatcher.topics.commands.name, b" " * (100 * MAX_COMMAND_BYTES))
    await publisher.assert_well()


async def test_large_commands_that_are_published_at_once_are_each_within_the_limit(
    dispatcher: RunningDispatcher, publisher: Publisher
) -> None:
    large = StartSearch.model_validate(valid_search() | {"tuner": {"options": {"a": "x" * 60_000}}})
    settings = dispatcher.settings
    async with Client(settings.kafka_bootstrap, settings.topic_prefix) as client:
        stream = new_id("w")
        published = await asyncio.gather(*(client.publish(large, stream) for _ in range(20)))
    assert len({publication.offset for publication in published}) == 20
    await publisher.answer(published[-1].source)
