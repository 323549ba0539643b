"""A command names a topic, and its answer goes there too, at least once, whatever dies on the way."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.integration.dispatcher.harness import START, Publisher, RunningDispatcher, valid_search
from tests.integration.publish.conftest import dispatcher_with
from tests.stack import Servers
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topic
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused, Source
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.keys.dead_letters import position_id
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Outgoing


class ReceiptHarness:
    """A dispatcher that may send receipts to two topics, one of which isn't there at first."""

    def __init__(self, dispatcher: RunningDispatcher, log: KafkaLog, inbox: str, late: str) -> None:
        self.dispatcher, self.log, self.inbox, self.late = dispatcher, log, inbox, late
        self.publisher = Publisher(log, dispatcher)

    async def say(self, receipt_to: str, task_type: str = "noop", structured: bool = False) -> Source:
        """Publishes a search that wants a receipt."""
        event = {"specversion": "1.0", "id": new_id("c"), "type": START, "source": "test"}
        body = {**valid_search(), "task_type": task_type}
        if structured:
            headers = [("content-type", b"application/cloudevents+json")]
            value = json.dumps({**event, "receiptto": receipt_to, "data": body}).encode()
        else:
            headers = [(f"ce_{name}", text.encode()) for name, text in event.items()]
            headers.append(("ce_receiptto", receipt_to.encode()))
            value = json.dumps(body).encode()
        topic = self.dispatcher.topics.commands.name
        appended = await self.log.publish(topic, 1, Outgoing(new_id("s").encode(), value, headers))
        return Source(topic=topic, partition=1, offset=appended.offset)

    async def read(self, topic: str, wanted: set[str]) -> dict[str, Record]:
        """Waits until the receipts with these ids are in a topic."""
        reader = self.log.reader({(topic, 0): 0})
        found: dict[str, Record] = {}
        async with asyncio.timeout(60):
            while not wanted <= found.keys():
                for entry in await reader.read(1.0):
                    record = decode(entry)
                    assert record is not None
                    found[record.envelope.id] = record
        await reader.close()
        return found

    async def make(self, topic: str) -> None:
        """Creates a topic as somebody else would."""
        await self.log.ensure([Topic(topic, 1, "any", "receipts", 3_600_000)])


@pytest.fixture(scope="module")
def sending(
    stack: Servers, module_database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningDispatcher]:
    topics = {"TRACKSIDE_DISPATCHER_RECEIPT_TOPICS": "{prefix}team-a.inbox, {prefix}team-b.late"}
    with dispatcher_with(stack, module_database, tmp_path_factory.mktemp("dispatcher"), topics) as running:
        yield running


@pytest.fixture
async def receipts(sending: RunningDispatcher) -> AsyncIterator[ReceiptHarness]:
    settings = sending.settings
    inbox, late = (f"{settings.topic_prefix}{name}" for name in ("team-a.inbox", "team-b.late"))
    async with KafkaLog(settings.kafka_bootstrap, "receipts") as log:
        found = ReceiptHarness(sending, log, inbox, late)
        await found.make(inbox)
        yield found


async def test_answers_go_to_the_topic_that_a_command_names(receipts: ReceiptHarness) -> None:
    good_one = await receipts.say(receipts.inbox)
    bad_one = await receipts.say(receipts.inbox, task_type="nope", structured=True)
    found = await receipts.read(receipts.inbox, {position_id(good_one), position_id(bad_one)})
    accepted, refused = found[position_id(good_one)], found[position_id(bad_one)]
    assert accepted.message == await receipts.publisher.answer(good_one)
    assert isinstance(accepted.message, CommandAccepted)
    assert refused.message == await receipts.publisher.answer(bad_one)
    assert isinstance(refused.message, CommandRefused) and refused.message.code == "unknown_task_type"
    assert accepted.envelope.role == "dispatcher"


async def test_no_other_topic_is_written_to(receipts: ReceiptHarness) -> None:
    prefix, refused = receipts.dispatcher.settings.topic_prefix, set()
    for name in ("trackside.commands", "team-c.inbox", "a b", "..", "x" * 300):
        for topic in (name, f"{prefix}{name}"):
            source = await receipts.say(topic)
            answer = await receipts.publisher.answer(source)
            assert isinstance(answer, CommandRefused)
            assert (answer.code, answer.path) == ("bad_receipt_topic", "$receiptto")
            assert receipts.inbox in answer.message
            refused.add(position_id(source))
    sent = position_id(await receipts.say(receipts.inbox))
    assert not refused & (await receipts.read(receipts.inbox, {sent})).keys()


async def test_a_topic_that_is_not_there_holds_up_no_other_and_gets_its_receipts_after_a_kill(
    receipts: ReceiptHarness,
) -> None:
    waiting = [await receipts.say(receipts.late) for _ in range(3)]
    for source in waiting:
        assert isinstance(await receipts.publisher.answer(source), CommandAccepted)
    sent = await receipts.say(receipts.inbox)
    await receipts.read(receipts.inbox, {position_id(sent)})
    receipts.dispatcher.service.restart()
    await receipts.make(receipts.late)
    found = await receipts.read(receipts.late, {position_id(source) for source in waiting})
    assert all(isinstance(record.message, CommandAccepted) for record in found.values())
    for source in waiting:
        assert found[position_id(source)].message == await receipts.publisher.answer(source)
    await receipts.publisher.assert_well()
