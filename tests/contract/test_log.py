"""What every form of the log promises, asked of the one in memory and of Kafka alike."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.stack import Servers
from trackside.contracts.envelope.topics import DAY_MS, MAX_RECORD_BYTES, Topic, Topics
from trackside.eventlog.errors import OffsetGoneError, PreflightError, TooLargeError
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.log import Entry, Log, Outgoing, Reader
from trackside.eventlog.memory import MemoryLog


@pytest.fixture(params=["memory", "kafka"])
async def log(request: pytest.FixtureRequest) -> AsyncIterator[Log]:
    if request.param == "memory":
        yield MemoryLog()
        return
    stack: Servers = request.getfixturevalue("stack")
    async with KafkaLog(stack.kafka_bootstrap, "contract") as kafka:
        yield kafka


@pytest.fixture
async def events(log: Log, topic_prefix: str) -> Topic:
    topic = Topics(prefix=topic_prefix, event_partitions=3).events
    await log.ensure([topic])
    return topic


def outgoing(text: str) -> Outgoing:
    return Outgoing(b"key", text.encode(), [("ce_id", text.encode())])


async def read(reader: Reader, count: int) -> list[Entry]:
    found: list[Entry] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await reader.read(10.0)
    return found


def texts(entries: list[Entry]) -> list[str]:
    return [(entry.value or b"").decode() for entry in entries]


async def test_a_batch_is_read_back_whole_and_in_order(log: Log, events: Topic) -> None:
    first = await log.append(events.name, 1, [outgoing("a"), outgoing("b")])
    second = await log.append(events.name, 1, [outgoing("c")])
    assert (first.offset, second.offset) == (0, 2)
    for text in "de":
        await log.publish(events.name, 1, outgoing(text))
    reader = log.reader({(events.name, 1): 0})
    entries = await read(reader, 5)
    assert texts(entries) == list("abcde")
    assert [entry.offset for entry in entries] == [0, 1, 2, 3, 4]
    assert [entry.append_time_ms for entry in entries[:2]] == [first.append_time_ms] * 2
    assert list(entries[0].headers) == [("ce_id", b"a")]
    assert entries[0].key == b"key"
    assert await reader.read(0.2) == [], "nothing is new"
    assert texts(await read(log.reader({(events.name, 1): 3}), 2)) == ["d", "e"]


async def test_a_reader_takes_on_more_partitions(log: Log, events: Topic) -> None:
    await log.append(events.name, 0, [outgoing("a")])
    await log.append(events.name, 2, [outgoing("x"), outgoing("y")])
    reader = log.reader({(events.name, 0): 0})
    assert texts(await read(reader, 1)) == ["a"]
    reader.assign({(events.name, 2): 1})
    assert texts(await read(reader, 1)) == ["y"]
    await log.append(events.name, 0, [outgoing("b")])
    assert texts(await read(reader, 1)) == ["b"]


async def test_a_paused_topic_is_not_read_while_others_are_and_goes_on_where_it_was(
    log: Log, events: Topic, topic_prefix: str
) -> None:
    fleet = Topics(prefix=topic_prefix).fleet
    await log.ensure([fleet])
    await log.append(events.name, 0, [outgoing(text) for text in "abcd"])
    reader = log.reader({(events.name, 0): 0, (fleet.name, 0): 0})
    found = await reader.read(10.0, 1) or await read(reader, 1)
    for text in "xyz":
        reader.pause([events.name])
        await log.append(fleet.name, 0, [outgoing(text)])
        assert texts(await read(reader, 1)) == [text]
    await log.append(events.name, 0, [outgoing("e")])
    assert await reader.read(0.2) == []
    reader.pause([])
    assert texts(found + await read(reader, 5 - len(found))) == list("abcde")


async def test_ends_and_beginnings_name_every_partition_of_a_topic_that_is_created_once(
    log: Log, events: Topic
) -> None:
    await log.append(events.name, 1, [outgoing("a"), outgoing("b")])
    await log.ensure([events])
    assert await log.ends(events.name) == {0: 0, 1: 2, 2: 0}
    assert await log.beginnings(events.name) == {0: 0, 1: 0, 2: 0}


async def test_a_batch_over_the_limit_is_refused_and_the_log_goes_on(log: Log, events: Topic) -> None:
    with pytest.raises(TooLargeError):
        await log.append(events.name, 0, [outgoing("x" * (MAX_RECORD_BYTES + 1))])
    assert (await log.append(events.name, 0, [outgoing("a")])).offset == 0


async def test_a_position_that_the_log_does_not_have_is_an_error(log: Log, events: Topic) -> None:
    await log.append(events.name, 0, [outgoing("a")])
    with pytest.raises(OffsetGoneError):
        await read(log.reader({(events.name, 0): 7}), 1)


async def test_preflight_names_what_is_missing_or_other_than_it_would_be_created(
    log: Log, topic_prefix: str
) -> None:
    topics = Topics(prefix=topic_prefix)
    await log.ensure([topics.fleet])
    with pytest.raises(PreflightError, match=r"trackside\.events does not exist"):
        await log.preflight([topics.fleet, topics.events])
    await log.ensure([Topics(prefix=topic_prefix, event_partitions=3).events])
    with pytest.raises(PreflightError, match="has 3 partitions, expected 12"):
        await log.preflight([topics.events])
    others = Topics(prefix=f"{topic_prefix}other.").shared
    await log.ensure(others)
    await log.preflight(others)


async def test_preflight_refuses_an_event_topic_that_forgets(log: Log, topic_prefix: str) -> None:
    kept = Topics(prefix=topic_prefix).events
    forgetful = Topic(kept.name, kept.partitions, kept.keyed_by, kept.what, DAY_MS, kept.config)
    await log.ensure([forgetful])
    with pytest.raises(PreflightError, match=r"retention\.ms is 86400000, expected -1"):
        await log.preflight([kept])
