"""Fetch sessions on a real broker: only what has changed is asked for, and nothing is lost or read twice."""

import random
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.protocol.fetch import FetchRequest, FetchRequest_v4, FetchRequest_v11

from tests.chaos.proxy import Proxy
from tests.polling import elapse, poll_until
from tests.stack import Servers
from trackside.contracts.envelope.topics import Topics
from trackside.embedded.ports import held_ports
from trackside.eventlog.kafka.fetch_sessions import SessionClient, SessionFetchRequest
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.kafka.kafka_reader import LONG_POLL_MS, KafkaReader
from trackside.eventlog.log import Entry, Outgoing

PARTITIONS = 6


class Asked:
    """The fetches of a test: which partitions each named, and which it took back."""

    def __init__(self) -> None:
        self.named: list[set[int]] = []
        self.forgotten: list[set[int]] = []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found, build = Asked(), SessionFetchRequest.build

    def recorded(self: SessionFetchRequest, version: Any) -> Any:
        request = build(self, version)
        found.named.append({part[0] for _, parts in request.topics for part in parts})
        found.forgotten.append({part for _, parts in request.forgotten_topics_data for part in parts})
        return request

    monkeypatch.setattr(SessionFetchRequest, "build", recorded)
    return found


class Reading:
    """A log with one topic and a reader of all its partitions."""

    def __init__(self, log: KafkaLog, topic: str) -> None:
        self.log, self.topic = log, topic
        self.reader: KafkaReader = log.reader({(topic, number): 0 for number in range(PARTITIONS)})

    async def append(self, partition: int, value: bytes) -> None:
        await self.log.append(self.topic, partition, [Outgoing(b"key", value, [])])

    async def next(self, count: int, max_records: int = 10_000) -> list[Entry]:
        found: list[Entry] = []

        async def read() -> bool:
            found.extend(await self.reader.read(0.5, max_records))
            return len(found) >= count

        await poll_until(read, within_s=60)
        return found

    async def values(self, count: int) -> list[bytes | None]:
        return [entry.value for entry in await self.next(count)]

    @property
    def consumer(self) -> Any:
        return self.reader._consumer

    @property
    def sessions(self) -> SessionClient:
        client = self.consumer._fetcher._client
        assert isinstance(client, SessionClient)
        return client


@pytest.fixture
async def reading(stack: Servers, topic_prefix: str) -> Any:
    topic = Topics(prefix=topic_prefix, event_partitions=PARTITIONS).events
    async with KafkaLog(stack.kafka_bootstrap, "sessions") as log:
        await log.ensure([topic])
        yield Reading(log, topic.name)


async def test_a_fetch_names_only_the_partitions_that_have_moved(reading: Reading, asked: Asked) -> None:
    await reading.append(0, b"first")
    assert await reading.values(1) == [b"first"]
    for turn in range(3):
        await reading.append(2, b"%d" % turn)
        assert await reading.values(1) == [b"%d" % turn]
    assert asked.named[0] == set(range(PARTITIONS))
    assert all(named <= {0, 2} for named in asked.named[1:]) and {2} in asked.named[1:]
    assert not any(asked.forgotten)


async def test_a_session_that_the_broker_does_not_know_is_begun_again(reading: Reading) -> None:
    await reading.append(0, b"first")
    assert await reading.values(1) == [b"first"]
    for broken in ("id", "epoch"):
        for session in reading.sessions._sessions.values():
            setattr(session, broken, getattr(session, broken) + 1_000)
        for partition in range(PARTITIONS):
            await reading.append(partition, b"later")
        assert await reading.values(PARTITIONS) == [b"later"] * PARTITIONS
        assert await reading.reader.read(0.2) == []


async def test_a_partition_whose_records_are_read_late_is_in_the_next_fetch_that_waits(
    reading: Reading, asked: Asked
) -> None:
    for value in (b"first", b"read late"):
        await reading.append(0, value)
    assert [entry.value for entry in await reading.next(1, max_records=1)] == [b"first"]
    await elapse(0.5)  # the client by itself would fetch from the other partitions after 0.1 s
    assert await reading.values(1) == [b"read late"]
    await reading.append(0, b"next")
    assert [entry.value for entry in await reading.reader.read(LONG_POLL_MS / 1000 - 1)] == [b"next"]
    assert not any(asked.forgotten)


async def test_a_paused_partition_is_taken_back_and_read_on_from_its_place(
    reading: Reading, asked: Asked
) -> None:
    await reading.append(1, b"first")
    assert await reading.values(1) == [b"first"]
    reading.consumer.pause(TopicPartition(reading.topic, 1))
    for value in (b"a", b"b"):  # the fetch in flight may still return the first of them
        await reading.append(0, value)
        assert await reading.values(1) == [value]
    await reading.append(1, b"while paused")
    await reading.append(0, b"c")
    assert await reading.values(1) == [b"c"]
    assert {1} in asked.forgotten
    reading.consumer.resume(TopicPartition(reading.topic, 1))
    assert await reading.values(1) == [b"while paused"]


async def test_a_reader_that_seeks_back_reads_again(reading: Reading) -> None:
    for value in (b"0", b"1", b"2"):
        await reading.append(3, value)
    assert await reading.values(3) == [b"0", b"1", b"2"]
    reading.consumer.seek(TopicPartition(reading.topic, 3), 1)
    await reading.append(0, b"end of the fetch in flight")
    assert set(await reading.values(3)) == {b"1", b"2", b"end of the fetch in flight"}


async def test_every_record_is_read_once_and_in_order_however_few_are_taken_at_once(
    reading: Reading, seed: int
) -> None:
    drawn = random.Random(seed)
    for number in range(200):
        await reading.append(drawn.randrange(PARTITIONS), b"%d" % number)
        if drawn.random() < 0.2:
            await reading.reader.read(0.0, 1)
    reading.reader = reading.log.reader({(reading.topic, number): 0 for number in range(PARTITIONS)})
    found: list[Entry] = []
    while len(found) < 200:
        found += await reading.reader.read(5.0, drawn.choice((1, 2, 5, 50)))
    for partition in range(PARTITIONS):
        offsets = [entry.offset for entry in found if entry.partition == partition]
        assert offsets == list(range(len(offsets)))
    assert sorted(int(entry.value or b"") for entry in found) == list(range(200))


async def test_a_connection_that_is_cut_in_a_fetch_loses_nothing(stack: Servers, topic_prefix: str) -> None:
    topic = Topics(prefix=topic_prefix, event_partitions=PARTITIONS).events
    upstream = int(stack.kafka_bootstrap.rpartition(":")[2])
    with held_ports(1) as (port,), Proxy(port, lambda: upstream) as proxy:
        async with KafkaLog(stack.kafka_bootstrap, "writer") as log:
            await log.ensure([topic])
            async with KafkaLog(proxy.address, "reader") as cut:
                reading = Reading(cut, topic.name)
                for number in range(4):
                    await log.append(topic.name, number, [Outgoing(b"key", b"%d" % number, [])])
                    assert await reading.values(1) == [b"%d" % number]
                    proxy.cut()


def test_a_broker_without_sessions_is_asked_for_everything() -> None:
    whole = FetchRequest(500, 1, 1_000, 1, [("topic", [(0, 7, 100), (1, 8, 100)])])
    told = SessionFetchRequest(whole, 3, 4, [("topic", [(1, 8, 100)])], [("topic", [2])])
    assert told.topics == whole.topics
    assert told.build(FetchRequest_v4).encode() == whole.build(FetchRequest_v4).encode()
    newest = told.build(FetchRequest_v11)
    assert (newest.session_id, newest.session_epoch) == (3, 4)
    assert newest.topics == [("topic", [(1, -1, 8, -1, 100)])]
    assert newest.forgotten_topics_data == [("topic", [2])]
