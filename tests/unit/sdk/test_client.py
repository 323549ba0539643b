"""The client over the log in memory: what it writes, how it finds answers, what it says without a key."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from tests.unit.domain.given import STREAM, Told
from tests.unit.domain.plausible_forgetting import without_key
from tests.unit.domain.test_forgetting import ended_search, forget
from trackside.aggregates.batch.messages import BatchSpec, BatchStarted
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search import messages
from trackside.aggregates.search.space.space import Choice, Space
from trackside.aggregates.search.state import search_of
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.fleet.fleet import Device, WorkerJoined
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.wire.ingress import Arrival, read_command
from trackside.domain.folding.streams import Streams
from trackside.eventlog.errors import TransientError
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry
from trackside.eventlog.memory import MemoryLog
from trackside.sdk import Client, Pipeline, errors
from trackside.sdk.connection.publication import Accepted, PublishedCommand, Refused, answer_in
from trackside.sdk.connection.records import answered_by, check_readable

TOPICS = Topics()
DISPATCHER, OTHER = RecordWriter("dispatcher", "1"), RecordWriter("worker", "1")
TRACE = f"00-{'a' * 32}-{'b' * 16}-01"
SPACE: Space = {"x": Choice(type="choice", values=[1, 2])}
START = messages.StartSearch(task_type="digits", max_trials=2, space=SPACE)


class SilentLog(MemoryLog):
    async def ends(self, topic: str) -> dict[int, int]:
        raise TransientError("connection refused")


@pytest.fixture
async def log() -> MemoryLog:
    memory = MemoryLog()
    await memory.ensure(TOPICS.shared)
    return memory


@pytest.fixture
async def client(log: MemoryLog) -> AsyncIterator[Client]:
    async with Client("", log=log) as made:
        yield made


async def record(
    log: MemoryLog, stream: str, *decisions: Sequence[Message], writer: RecordWriter = DISPATCHER
) -> int:
    place = (TOPICS.events.name, partition_of(stream, TOPICS.events.partitions))
    for decision in decisions:
        appended = await log.append(*place, writer.decision(stream, decision))
    return appended.offset


def received(publication: PublishedCommand) -> CommandReceived:
    body = START.model_dump(mode="json")
    known = {"command_type": START.wire_type(), "body": body, "digest": "d", "rules": 1}
    said = {"command_id": publication.command_id, "source": publication.source, "publisher": "test"}
    return CommandReceived.model_validate(known | said)


def accepted(publication: PublishedCommand) -> CommandAccepted:
    return CommandAccepted(command_id=publication.command_id, source=publication.source)


def refused(command_id: str, source: Source, code: str, path: str, message: str) -> CommandRefused:
    return CommandRefused(command_id=command_id, source=source, code=code, path=path, message=message)


def started(publication: PublishedCommand) -> messages.SearchStarted:
    return messages.SearchStarted(command_id=publication.command_id, search=START, seed=1)


async def read(log: MemoryLog, source: Source) -> Entry:
    [entry] = await log.reader({(source.topic, source.partition): source.offset}).read(1)
    return entry


async def arrived(log: MemoryLog, publication: PublishedCommand) -> Arrival:
    entry = await read(log, publication.source)
    headers = {name: octets for name, octets in entry.headers if octets is not None}
    return read_command(headers, entry.key, entry.value)


async def test_a_command_arrives_as_the_platform_reads_it(log: MemoryLog, client: Client) -> None:
    publication = await client.publish(START, "s1", "c1", traceparent=TRACE)
    arrival = await arrived(log, publication)
    assert (arrival.stream, arrival.command_id, arrival.command_type) == ("s1", "c1", START.wire_type())
    assert arrival.problem is None and arrival.body == START.model_dump(mode="json")
    assert arrival.traceparent.startswith("00-aaaa")
    assert publication.partition == partition_of("s1", TOPICS.commands.partitions)


async def test_a_mapping_arrives_as_a_structured_cloud_event(log: MemoryLog, client: Client) -> None:
    wish = {"type": "trackside.stop-search.v1", "data": {"reason": "enough"}, "source": "ci/42"}
    arrival = await arrived(log, await client.publish(wish, "s1", "c1"))
    assert arrival.problem is None and arrival.body == {"reason": "enough"}
    assert (arrival.stream, arrival.publisher, arrival.command_id) == ("s1", "ci/42", "c1")


async def test_an_answer_is_of_a_dispatcher_at_the_place_of_publication(
    log: MemoryLog, client: Client
) -> None:
    first = await client.publish(START, "s1", "c1")
    second = await client.publish(START, "s1", "c1")
    assert first.source != second.source
    await record(log, "s1", [received(first)], [accepted(first), started(first)], [received(second)])
    offset = await record(log, "s1", [accepted(second)])
    assert await client.answer(second, 60) == Accepted("c1", offset)
    assert (await client.answer(first, 60)).offset < offset
    publication = await client.publish(START, "s1", "c1")
    await record(log, "s1", [accepted(publication)], writer=OTHER)
    with pytest.raises(errors.UnansweredError, match=r"c1.*is a dispatcher running"):
        await client.answer(publication, 0.05)


async def test_a_refusal_says_code_path_and_message(log: MemoryLog, client: Client) -> None:
    publication = await client.publish(messages.StopSearch(), "s1", "c1")
    waiting = asyncio.create_task(client.answer(publication, 60))
    refusal = refused("c1", publication.source, "unknown_stream", "$", "none")
    offset = await record(log, "s1", [refusal])
    assert await waiting == Refused("c1", offset, "unknown_stream", "$", "none")


async def test_a_command_over_the_limit_is_not_published(log: MemoryLog) -> None:
    for stream in ("", "a b", "../x", "x" * 129):
        with pytest.raises(errors.UnsendableError, match="bad_identifier at \\$partitionkey"):
            await Client("", log=log).publish(messages.StopSearch(), stream)
    large = {"type": "trackside.start-search.v1", "data": {"name": "x" * 262_144}}
    with pytest.raises(errors.UnsendableError, match=r"too_large.*262,144"):
        await Client("", log=log).publish(large, "s1")
    assert set((await log.ends(TOPICS.commands.name)).values()) == {0}


async def test_a_silent_broker_is_an_error_that_names_the_command() -> None:
    with pytest.raises(errors.UnreachableError, match=r"nowhere:1 .*connection refused.*command c9"):
        await Client("nowhere:1", log=SilentLog()).publish(START, "s1", "c9", timeout_s=0.05)


async def test_events_are_those_of_the_stream_only(log: MemoryLog, client: Client) -> None:
    other = next(name for name in map(str, range(10_000)) if partition_of(name, 12) == partition_of("s1", 12))
    publication = await client.publish(START, "s1", "c1")
    await record(log, "s1", [received(publication)])
    await record(log, other, [received(publication)])
    await record(log, "s1", [accepted(publication), started(publication)])
    found = [entry async for entry in client.events("s1")]
    assert [entry.offset for entry in found] == [0, 2, 3]
    assert [entry.offset async for entry in client.events("s1", from_offset=2)] == [2, 3]
    assert [entry async for entry in client.events("nothing")] == []


async def test_waiting_ends_with_the_search(log: MemoryLog, client: Client) -> None:
    publication = await client.publish(START, "s1", "c1")
    waiting = asyncio.create_task(client.wait("s1", 60))
    await record(log, "s1", [received(publication)], [accepted(publication), started(publication)])
    state = await client.state("s1")
    assert state is not None and search_of(state) is not None and not state.closed
    stopping = messages.SearchStopRequested(command_id="c1", reason="enough")
    await record(
        log, "s1", [stopping], [messages.SearchEnded(status=messages.SearchStatus.STOPPED, trials=0)]
    )
    stream = await waiting
    assert stream.root is not None and stream.root.status is messages.SearchStatus.STOPPED
    assert await client.state("nobody") is None


async def test_the_fleet_is_folded_to_its_end(log: MemoryLog) -> None:
    device = Device(device_id="cpu0", kind="cpu", name="CPU slot", memory_bytes=1)
    fields = {"host": "h", "devices": [device], "task_types": [], "queues": [], "after": {}}
    joined = WorkerJoined(worker_id="w1", incarnation="i1", **fields)
    assert (await Client("", log=log).fleet()).workers == {}
    await log.append(TOPICS.fleet.name, 0, [RecordWriter("worker", "w1").single("w1", joined)])
    assert list((await Client("", log=log).fleet()).workers) == ["w1"]


def test_the_blocking_form_does_the_same() -> None:
    log = MemoryLog()
    asyncio.run(log.ensure(TOPICS.shared))
    with Client.blocking("", log=log) as client:
        publication = client.publish(START, "s1", "c1")
        assert (publication.topic, publication.offset) == (TOPICS.commands.name, 0)
        assert list(client.events("s1")) == []
        assert client.state("s1") is None
    client.close()


async def test_tasks_are_submitted_and_accepted_or_refused(log: MemoryLog, client: Client) -> None:
    wanted = {"groups": [{"tasks": [{"task_type": "digits"}]}]}
    with pytest.raises(errors.UnsendableError, match=r"\$\.groups\[0\]\.tasks"):
        await client.submit_tasks({"groups": [{"tasks": []}]}, "b1")
    for batch_id, answer in (("b1", "accepted"), ("b2", "refused")):
        submitting = asyncio.create_task(client.submit_tasks(wanted, batch_id, 60))
        source = await _published(log, batch_id)
        if answer == "accepted":
            await record(log, batch_id, [CommandAccepted(command_id="x", source=source)])
            assert await submitting == batch_id
            continue
        refusal = refused("x", source, "unknown_task_type", "$.groups[0]", "no digits")
        await record(log, batch_id, [refusal])
        with pytest.raises(errors.RefusedError, match="b2 refused: unknown_task_type at"):
            await submitting


async def test_a_run_is_started_by_the_definition_of_its_pipeline(log: MemoryLog, client: Client) -> None:
    pipeline = Pipeline("digits", parameters={"epochs": {"type": "integer"}})
    pipeline.task("data", "make-data")
    with pytest.raises(errors.UnsendableError, match=r"missing_parameter at \$\.parameters\.epochs"):
        await client.start_run(pipeline, run_id="r1")
    starting = asyncio.create_task(client.start_run(pipeline, {"epochs": 2}, "r1", 60))
    source = await _published(log, "r1")
    assert json.loads((await read(log, source)).value or b"")["pipeline"] == pipeline.spec()
    await record(log, "r1", [CommandAccepted(command_id="x", source=source)])
    assert await starting == "r1"


async def _published(log: MemoryLog, stream: str) -> Source:
    topic = TOPICS.commands
    place = (topic.name, partition_of(stream, topic.partitions))
    async with asyncio.timeout(60):
        reader = log.reader({place: 0})
        while True:
            for entry in await reader.read(1):
                if entry.key == stream.encode():
                    return Source(topic=entry.topic, partition=entry.partition, offset=entry.offset)


async def test_what_a_stream_is_is_read_from_its_first_events(log: MemoryLog, client: Client) -> None:
    batch = BatchSpec.model_validate({"groups": [{"tasks": [{"task_type": "digits"}]}]})
    publication = await client.publish(START, "s1", "c1")
    await record(log, "s1", [received(publication)])
    assert await client.kind("s1") is None
    await record(log, "s1", [accepted(publication), started(publication)])
    await record(log, "s2", [BatchStarted(command_id="c", batch=batch)])
    assert (await client.kind("s1"), await client.kind("s2")) == ("search", "batch")
    assert await client.kind("nobody") is None


async def test_answers_come_as_they_are_given_each_to_its_publication(log: MemoryLog, client: Client) -> None:
    published = [await client.publish(messages.StopSearch(), f"s{at}", f"c{at}") for at in range(5)]
    refusal = refused("c2", published[2].source, "unknown_search", "$", "no")
    await record(log, "s0", [accepted(published[0])], writer=OTHER)  # only the dispatcher's word counts
    for each in reversed(published):
        await record(log, each.stream_id, [refusal if each is published[2] else accepted(each)])
    found = {publication.stream_id: given async for publication, given in client.answers(published, 5)}
    assert found.keys() == {f"s{at}" for at in range(5)}
    assert isinstance(found["s2"], Refused) and found["s2"].code == "unknown_search"
    assert all(isinstance(given, Accepted) for name, given in found.items() if name != "s2")


@pytest.mark.thorough
async def test_without_more_answers_it_ends_in_time_with_those_there_are(
    log: MemoryLog, client: Client
) -> None:
    assert [given async for given in client.answers([], 60)] == []
    published = [await client.publish(messages.StopSearch(), f"s{at}") for at in range(2)]
    await record(log, "s1", [accepted(published[1])])
    assert [publication async for publication, _ in client.answers(published, 0.05)] == [published[1]]


def answered(told: Told) -> tuple[PublishedCommand, Record]:
    record = next(each for each in told.records if isinstance(each.message, CommandAccepted))
    assert isinstance(record.message, CommandAccepted)
    source = record.message.source
    place = source.topic, source.partition, source.offset
    return PublishedCommand(*place, record.message.command_id, STREAM), record


def test_an_answer_is_read_with_the_key_and_named_as_encrypted_without_it() -> None:
    publication, record = answered(ended_search())
    waiting, encrypted = {publication.source: publication}, without_key(record)
    assert answered_by(record, waiting) == answered_by(encrypted, waiting) == publication
    assert isinstance(answer_in(publication, record), Accepted)
    with pytest.raises(errors.EncryptedStreamError, match="was opened without `keys`"):
        answer_in(publication, encrypted)
    other = {publication.source: replace(publication, stream_id="other")}
    assert answered_by(record, other) is answered_by(encrypted, other) is None


def test_a_stream_is_not_followed_without_its_key_or_beyond_where_it_is_forgotten() -> None:
    streams, (first, *_) = Streams(AGGREGATES), ended_search().records
    with pytest.raises(errors.EncryptedStreamError, match=STREAM):
        check_readable(streams.fold(without_key(first))[0])
    told, streams = ended_search(), Streams(AGGREGATES)
    forget(told)
    for record in told.records[:-1]:
        check_readable(streams.fold(record)[0])
    with pytest.raises(errors.EncryptedStreamError, match="was forgotten"):
        check_readable(streams.fold(told.records[-1])[0])
