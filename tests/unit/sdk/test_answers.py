"""Many publications and their answers, read in one pass over the log in memory."""

import pytest

from trackside.aggregates.search.messages import StopSearch
from trackside.contracts.commands import CommandAccepted, CommandRefused
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.record_writer import RecordWriter
from trackside.sdk import Client
from trackside.sdk.publication import Accepted, PublishedCommand, Refused

TOPICS = Topics()


@pytest.fixture
async def log() -> MemoryLog:
    memory = MemoryLog()
    await memory.ensure(TOPICS.shared)
    return memory


async def answer(
    log: MemoryLog, publication: PublishedCommand, code: str = "", role: str = "dispatcher"
) -> None:
    said = {"command_id": publication.command_id, "source": publication.source}
    refused = CommandRefused(**said, code=code, path="$", message="no")
    event = refused if code else CommandAccepted(**said)
    place = (TOPICS.events.name, partition_of(publication.stream_id, TOPICS.events.partitions))
    await log.append(*place, [RecordWriter(role, "1").single(publication.stream_id, event)])


async def test_answers_come_as_they_are_given_each_to_its_publication(log: MemoryLog) -> None:
    async with Client("", log=log) as client:
        published = [await client.publish(StopSearch(), f"s{at}", f"c{at}") for at in range(5)]
        await answer(log, published[0], role="worker")  # nobody's word but the dispatcher's counts
        for publication in reversed(published):
            await answer(log, publication, code="unknown_search" if publication.stream_id == "s2" else "")
        found = {publication.stream_id: given async for publication, given in client.answers(published, 5)}
    assert found.keys() == {f"s{at}" for at in range(5)}
    assert isinstance(found["s2"], Refused) and found["s2"].code == "unknown_search"
    assert all(isinstance(given, Accepted) for name, given in found.items() if name != "s2")


@pytest.mark.thorough
async def test_without_more_answers_it_ends_in_time_with_those_there_are(log: MemoryLog) -> None:
    async with Client("", log=log) as client:
        assert [given async for given in client.answers([], 60)] == []
        published = [await client.publish(StopSearch(), f"s{at}") for at in range(2)]
        await answer(log, published[1])
        found = [publication async for publication, _ in client.answers(published, 0.05)]
    assert found == [published[1]]
