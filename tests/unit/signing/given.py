"""A partition whose events are signed: what is written to it, and how a reader folds that."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.unit.domain.given import spec
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchStarted
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.envelope.trusted_keys import SignatureMode
from trackside.contracts.streams.commands import RULES, CommandAccepted, CommandReceived, Source
from trackside.contracts.streams.keys import KeyRevoked, KeyTrusted, SignatureModeChanged, keys_stream
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decision_signer import DecisionSigner, new_signer
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry, Outgoing

TOPIC = Topics().events.name
PARTITIONS = Topics().event_partitions
STREAM = "digits-1"
PARTITION = partition_of(STREAM, PARTITIONS)
KEYS = keys_stream(PARTITION, PARTITIONS)


def beginning() -> list[Message]:
    """Returns a decision that begins a search: its command is answered, and it starts."""
    source = Source(topic="trackside.commands", partition=0, offset=7)
    started = SearchStarted(command_id="c-1", search=spec(), seed=7)
    return [CommandAccepted(command_id="c-1", source=source), started]


def received(command_id: str = "c-1") -> list[Message]:
    source = Source(topic="trackside.commands", partition=0, offset=7)
    said = {"command_id": command_id, "command_type": "trackside.start-search.v1", "body": {}}
    more = {"digest": "0" * 64, "source": source, "publisher": "test", "rules": RULES}
    return [CommandReceived.model_validate({**said, **more})]


@dataclass
class SignedPartition:
    """What is in a partition so far, and what one reader makes of it."""

    partition: int = PARTITION
    entries: list[Entry] = field(default_factory=list)
    streams: Streams = field(default_factory=lambda: Streams(AGGREGATES))
    root: DecisionSigner = field(default_factory=new_signer)
    dispatcher: DecisionSigner = field(default_factory=new_signer)
    reasons: list[str] = field(default_factory=list)

    def writer(self, role: str = "dispatcher", signer: DecisionSigner | None = None) -> RecordWriter:
        """Returns a writer that signs with a key, the dispatcher's if none is given."""
        return RecordWriter(role, "1", signer or self.dispatcher)

    def append(self, records: Sequence[Outgoing]) -> list[Outcome]:
        """Appends records and folds them; `reasons` are why they are not trusted."""
        outcomes = []
        self.reasons = []
        for record in records:
            offset = len(self.entries)
            time_ms = 1_000 + offset
            entry = Entry(TOPIC, self.partition, offset, time_ms, record.key, record.value, record.headers)
            self.entries.append(entry)
            read = decoded(entry)
            outcomes.append(self.streams.fold(read)[1])
            self.reasons.append(read.distrust)
        return outcomes

    def decide(self, messages: Sequence[Message], stream: str = STREAM, **more: Any) -> list[Outcome]:
        return self.append(self.writer(**more).decision(stream, messages, topic=TOPIC))

    def about_keys(self, message: Message, signer: DecisionSigner | None = None) -> Outcome:
        """Appends an event about keys, signed with the installation's key if no other is given."""
        writer = RecordWriter("setup", "test", signer or self.root)
        return self.append(writer.decision(KEYS, [message], topic=TOPIC))[0]

    def trust(self, key: DecisionSigner, role: str, worker_id: str = "", **more: Any) -> Outcome:
        return self.about_keys(trusted(key, role, worker_id, self.partition), **more)

    def revoke(self, key: DecisionSigner, **more: Any) -> Outcome:
        revoked = KeyRevoked(topic=TOPIC, partition=self.partition, key_id=key.key_id)
        return self.about_keys(revoked, **more)

    def set_mode(self, mode: SignatureMode, **more: Any) -> Outcome:
        trust = self.streams.trust_in(self.partition)
        number = 1 if trust is None else len(trust.modes) + 1
        changed = SignatureModeChanged(topic=TOPIC, partition=self.partition, number=number, mode=mode)
        return self.about_keys(changed, **more)

    @property
    def stream(self) -> Stream:
        found = self.streams.find(STREAM)
        assert found is not None
        return found


def trusted(
    key: DecisionSigner, role: str, worker_id: str = "", partition: int = PARTITION, topic: str = TOPIC
) -> KeyTrusted:
    known = {"key_id": key.key_id, "public_key": key.public_key.hex()}
    return KeyTrusted(topic=topic, partition=partition, **known, role=role, worker_id=worker_id)


def decoded(entry: Entry) -> Record:
    record = decode(entry)
    assert record is not None
    return record


def requiring() -> SignedPartition:
    """Returns a partition that trusts a dispatcher, and requires signatures."""
    made = SignedPartition()
    outcomes = [made.trust(made.root, "setup"), made.trust(made.dispatcher, "dispatcher")]
    assert [*outcomes, made.set_mode("require")] == [Outcome.APPLIED] * 3
    return made


def with_header(record: Outgoing, name: str, octets: bytes) -> Outgoing:
    headers = [*(each for each in record.headers if each[0] != name), (name, octets)]
    return replace(record, headers=headers)
