"""A client of a log that requires signatures: which answers it takes, and what it says of each record."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.replay.given import Clock
from trackside.contracts.envelope.message import Message
from trackside.contracts.envelope.standing import Standing
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.envelope.trusted_keys import TrustedKey
from trackside.contracts.streams.commands import RULES, CommandAccepted, CommandReceived, CommandRefused, Ping
from trackside.eventlog.keys.decision_signer import DecisionSigner, new_signer
from trackside.eventlog.keys.installation_keys import KeyChanges, change_keys, set_up_keys
from trackside.eventlog.keys.key_folder import KeyFolder
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.memory import MemoryLog
from trackside.sdk import Client
from trackside.sdk.connection.publication import Accepted, PublishedCommand
from trackside.sdk.errors import UnansweredError

TOPICS = Topics()


class SecureLog:
    """A log in memory that requires signatures, with a client."""

    def __init__(self, folder: Path) -> None:
        self.memory, self.folder = MemoryLog(Clock()), KeyFolder(folder)
        self.client = Client("", log=self.memory)

    async def begin(self) -> "SecureLog":
        await self.memory.ensure(TOPICS.shared)
        await set_up_keys(self.memory, TOPICS, self.folder, ["w1"], require=True)
        return self

    @property
    def dispatcher(self) -> DecisionSigner:
        return self.folder.signer("dispatcher")

    async def write(
        self,
        events: Sequence[Message],
        stream: str,
        key: DecisionSigner | None,
        source: str = "dispatcher/1",
    ) -> int:
        place = (TOPICS.events.name, partition_of(stream, TOPICS.events.partitions))
        role, _, instance = source.partition("/")
        writer = RecordWriter(role, instance, key)
        return (await self.memory.append(*place, writer.decision(stream, events, topic=place[0]))).offset


@pytest.fixture
async def secure(tmp_path: Path) -> SecureLog:
    return await SecureLog(tmp_path / "keys").begin()


def received(of: PublishedCommand) -> CommandReceived:
    said = {"command_id": of.command_id, "source": of.source, "publisher": "test", "rules": RULES}
    return CommandReceived.model_validate(
        {"command_type": Ping.wire_type(), "body": {}, "digest": "0" * 64} | said
    )


def accepted(of: PublishedCommand) -> CommandAccepted:
    return CommandAccepted(command_id=of.command_id, source=of.source)


def refused(of: PublishedCommand) -> CommandRefused:
    return CommandRefused(command_id=of.command_id, source=of.source, code="no", path="$", message="no")


async def test_an_answer_that_is_not_signed_by_a_dispatcher_is_ignored(secure: SecureLog) -> None:
    sent = await secure.client.publish(Ping(), "s1", "c1")
    await secure.write([received(sent)], "s1", secure.dispatcher)
    await secure.write([refused(sent)], "s1", None)
    await secure.write([refused(sent)], "s1", new_signer())
    await secure.write([refused(sent)], "s1", secure.folder.signer("worker-w1"))
    await secure.write([refused(sent)], "s1", secure.folder.signer("scheduler"))
    with pytest.raises(UnansweredError, match=r"did not count: .*1 unknown_key, 1 unsigned") as raised:
        await secure.client.answer(sent, 0.1)
    assert "another_role" in str(raised.value) and "unknown_key" in str(raised.value)
    offset = await secure.write([accepted(sent)], "s1", secure.dispatcher)
    assert await secure.client.answer(sent, 60) == Accepted("c1", offset)
    assert [answer async for _, answer in secure.client.answers([sent], 60)] == [Accepted("c1", offset)]


async def test_a_copy_of_a_signed_answer_is_none_to_another_command(secure: SecureLog) -> None:
    """Its place in the topic of commands is signed, and so is its stream."""
    first, second = [await secure.client.publish(Ping(), name, "c1") for name in ("s1", "s2")]
    place = (TOPICS.events.name, partition_of("s2", TOPICS.events.partitions))
    writer = RecordWriter("dispatcher", "1", secure.dispatcher)
    [copy] = writer.decision("s1", [accepted(first)], topic=place[0])
    headers = [(name, b"s2" if name == "ce_partitionkey" else octets) for name, octets in copy.headers]
    changed = (copy.value or b"").replace(b'"offset":0', b'"offset":%d' % second.offset)
    await secure.memory.append(*place, [copy.__class__(b"s2", changed, headers)])
    with pytest.raises(UnansweredError, match="bad_signature"):
        await secure.client.answer(second, 0.1)


async def test_keys_that_change_while_a_client_waits_are_known_to_it(
    secure: SecureLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trackside.sdk.connection.answer_keys.DOUBTED_AGAIN_S", 0.0)
    old, new = secure.dispatcher, new_signer()
    sent = await secure.client.publish(Ping(), "s1", "c1")
    await secure.write([accepted(sent)], "s1", old)
    assert isinstance(await secure.client.answer(sent, 60), Accepted)
    trusted = {new.key_id: TrustedKey(new.public_key.hex(), "dispatcher")}
    await change_keys(secure.memory, TOPICS, secure.folder.signer("setup"), KeyChanges(trusted))
    sent = await secure.client.publish(Ping(), "s1", "c2")
    await secure.write([accepted(sent)], "s1", new)
    assert isinstance(await secure.client.answer(sent, 60), Accepted)
    await change_keys(secure.memory, TOPICS, secure.folder.signer("setup"), KeyChanges(revoked=[old.key_id]))
    monkeypatch.setattr("trackside.sdk.connection.answer_keys.READ_AGAIN_S", 0.0)
    sent = await secure.client.publish(Ping(), "s1", "c3")
    await secure.write([accepted(sent)], "s1", old)
    with pytest.raises(UnansweredError, match="revoked_key"):
        await secure.client.answer(sent, 0.1)


async def test_without_keys_nothing_is_checked() -> None:
    memory = MemoryLog(Clock())
    await memory.ensure(TOPICS.shared)
    async with Client("", log=memory) as client:
        sent = await client.publish(Ping(), "s1", "c1")
        place = (TOPICS.events.name, partition_of("s1", TOPICS.events.partitions))
        await memory.append(*place, RecordWriter("dispatcher", "1").decision("s1", [accepted(sent)]))
        assert isinstance(await client.answer(sent, 60), Accepted)


async def test_each_record_says_whether_it_had_an_effect(secure: SecureLog) -> None:
    sent = await secure.client.publish(Ping(), "s1", "c1")
    begun = await secure.write([received(sent)], "s1", secure.dispatcher)
    await secure.write([refused(sent)], "s1", None)
    await secure.write([accepted(sent)], "s1", secure.folder.signer("scheduler"), "scheduler/1")
    await secure.write([accepted(sent)], "s1", secure.dispatcher)
    await secure.write([refused(sent)], "s1", secure.dispatcher)
    other = sent.__class__("trackside.commands", 0, 99, "c9", "s1")
    await secure.write([accepted(other)], "s1", secure.dispatcher)
    found = [(each.standing, each.distrust) async for each in secure.client.events("s1")]
    assert found == [
        (Standing.APPLIED, ""),
        (Standing.FORGED, "unsigned"),
        (Standing.VOID, ""),
        (Standing.APPLIED, ""),
        (Standing.DUPLICATE, ""),
        (Standing.OVERTAKEN, ""),
    ]
    late = [each.standing async for each in secure.client.events("s1", from_offset=begun + 4)]
    assert late == [Standing.DUPLICATE, Standing.OVERTAKEN], "the state is that of the whole stream"
