"""What the records of real clients look like: each of these forms is read as the same command."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaProducer

from tests.integration.dispatcher.harness import START, Publisher, RunningDispatcher, valid_search
from trackside.aggregates.search.messages import StartSearch
from trackside.contracts.commands import CommandAccepted, CommandRefused, Source
from trackside.contracts.ids import new_id
from trackside.contracts.message import Json
from trackside.contracts.topics import MAX_COMMAND_BYTES
from trackside.eventlog.kafka import KafkaLog
from trackside.eventlog.log import Outgoing
from trackside.sdk import Client

Headers = list[tuple[str, bytes]]
CODECS = ("gzip", "snappy", "lz4", "zstd")
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


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([JSON_TYPE], id="as we write it"),
        pytest.param([], id="no content type"),
        pytest.param([JSON_TYPE, JSON_TYPE], id="content type twice"),
        pytest.param([("content-type", b""), ("Content-Type", b"application/json")], id="an empty one too"),
        pytest.param([("content-type", b"application/json; charset=UTF-8")], id="charset"),
        pytest.param([("ce_datacontenttype", b"application/json")], id="content type as an attribute"),
        pytest.param([("ce_time", b"1900-01-01T00:00:00Z")], id="BI-25 the year 1900"),
        pytest.param([("ce_time", b"3000-01-01T00:00:00Z")], id="BI-25 the year 3000"),
        pytest.param([("ce_time", b"yesterday \xff")], id="BI-25 no time at all"),
        pytest.param([("ce_dataschema", b"x"), ("ce_team", b"\xff"), ("b3", b"0")], id="extensions"),
    ],
)
@pytest.mark.parametrize("backwards", [False, True], ids=["", "backwards"])
async def test_a_binary_command_may_have_its_headers_in_any_way(
    wire: WirePublisher, more: Headers, backwards: bool
) -> None:
    stream = new_id("w")
    headers = [*binary(stream), *more]
    await wire.accepts(headers[::-1] if backwards else headers, valid_search())


async def test_names_of_headers_may_be_in_capitals(wire: WirePublisher) -> None:
    await wire.accepts([(name.upper(), octets) for name, octets in binary(new_id("w"))], valid_search())


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([STRUCTURED], id="as it should be"),
        pytest.param([("content-type", b"application/cloudevents+json; charset=utf-8")], id="charset"),
        pytest.param([("Content-Type", b"Application/CloudEvents+JSON;charset=UTF-8")], id="capitals"),
        pytest.param([STRUCTURED, STRUCTURED], id="twice"),
        pytest.param([STRUCTURED, JSON_TYPE], id="twice, differing"),
        pytest.param([JSON_TYPE, STRUCTURED], id="twice, differing, the other way round"),
        pytest.param([JSON_TYPE], id="the client's default"),
        pytest.param([], id="none"),
    ],
)
async def test_a_structured_command_is_known_by_its_type_or_by_itself(
    wire: WirePublisher, headers: Headers
) -> None:
    await wire.accepts(headers, event(new_id("w"), datacontenttype="application/json", team="vision"))


@pytest.mark.parametrize("partition", range(4))
async def test_any_partition_will_do(wire: WirePublisher, partition: int) -> None:
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


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not on this machine")
@pytest.mark.parametrize("codec", CODECS)
async def test_the_codecs_of_librdkafka_will_do_too(
    dispatcher: RunningDispatcher, publisher: Publisher, codec: str
) -> None:
    stream = new_id("w")
    options = [word for name, octets in binary(stream) for word in ("-H", f"{name}={octets.decode()}")]
    where = ["-b", dispatcher.settings.kafka_bootstrap, "-P", "-t", dispatcher.topics.commands.name]
    kcat = await asyncio.create_subprocess_exec(
        *("kcat", *where, "-z", codec, "-k", stream, *options), stdin=asyncio.subprocess.PIPE
    )
    await kcat.communicate(json.dumps(valid_search()).encode())
    assert kcat.returncode == 0
    answer = await publisher.until(
        lambda record: record.envelope.stream == stream and isinstance(record.message, CommandAccepted)
    )
    assert answer.envelope.stream == stream


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


async def test_a_record_without_any_header_is_answered_where_it_lies(
    wire: WirePublisher, dispatcher: RunningDispatcher
) -> None:
    async with KafkaLog(dispatcher.settings.kafka_bootstrap, "wire") as log:
        appended = await log.publish(wire.topic, 1, Outgoing(None, b"{}", []))
        source = Source(topic=wire.topic, partition=1, offset=appended.offset)
        answer = await Publisher(log, dispatcher).answer(source)
    assert isinstance(answer, CommandRefused)
    assert (answer.code, answer.path) == ("missing_header", "$id")
    assert answer.command_id == f"{wire.topic}-1-{appended.offset}"


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
