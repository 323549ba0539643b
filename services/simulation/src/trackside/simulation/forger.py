"""The keys that the writers of a simulation sign with, and a forger among them who may write to the log."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.envelope.topics import Topic, Topics, partition_of
from trackside.contracts.streams.commands import RULES, CommandReceived, Ping, Source
from trackside.contracts.streams.keys import KeyTrusted, SignatureModeChanged, keys_stream
from trackside.contracts.tasks.tasks import AttemptEnd, AttemptEnded, TaskAccepted
from trackside.contracts.trust.decision_signing import KEY_ID
from trackside.contracts.trust.trust import (
    ANOTHER_ROLE,
    ANOTHER_WORKER,
    BAD_SIGNATURE,
    BROKEN_CHAIN,
    UNKNOWN_KEY,
    UNSIGNED,
)
from trackside.eventlog.keys.decision_signer import DecisionSigner
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Outgoing
from trackside.simulation.scenarios.scenarios import STREAM
from trackside.simulation.virtual.log import VirtualLog

FORGED = 0.03
"""The chance that an event is followed by a forged one."""
OF_COMMANDS = (UNSIGNED, UNKNOWN_KEY, ANOTHER_ROLE, BAD_SIGNATURE, BROKEN_CHAIN)
"""What is wrong with the signature of a forged command."""
SETUP = "setup"
OWN = "forger"
_ACCEPTED = ("ce_type", TaskAccepted.wire_type().encode())


class Forger:
    """Writes what the state permits at any time, with each kind of signature that does not count.

    It has the key of one worker and one of its own, and copies what it reads. `forged` counts its events by
    what is wrong with them. If it is not active, there are no keys, and it writes nothing. It draws from its
    own random numbers, which leaves the other faults of a seed as they are.
    """

    def __init__(self, seed: int, workers: int, log: VirtualLog, topics: Topics, *, active: bool) -> None:
        self.forged: Counter[str] = Counter()
        self._rng = Random(f"{seed} forger")
        self._log, self._topics = log, topics
        self._ids: set[str] = set()
        self._workers = [f"w{number}" for number in range(workers)]
        self._keys: dict[str, DecisionSigner] = {}
        for name in (SETUP, "dispatcher", "scheduler", *self._workers, OWN) if active else ():
            octets = self._rng.randbytes(32)
            self._keys[name] = DecisionSigner.of(Ed25519PrivateKey.from_private_bytes(octets))

    def signer(self, name: str) -> DecisionSigner | None:
        """Returns the key of a service or a worker, None if there are no keys."""
        return self._keys.get(name)

    def require_signatures(self) -> None:
        """Lets each partition trust all keys but the forger's, and require them."""
        for topic in (self._topics.events, self._topics.fleet) if self._keys else ():
            for partition in range(topic.partitions):
                self._log._land((topic.name, partition), self._key_events(topic, partition), None)

    def take(self, record: Outgoing, after: Callable[..., None]) -> None:
        """Takes an event that was appended; `after` is called with what the forger does, and when."""
        if not self._keys or self._rng.random() > FORGED:
            return
        if ("ce_partitionkey", STREAM.encode()) not in record.headers:
            return
        wrong = ANOTHER_WORKER if _ACCEPTED in record.headers else self._rng.choice(OF_COMMANDS)
        name = f"forged-{len(self._ids)}"
        self._ids.add(name)
        self.forged[wrong] += 1
        forged = self._end(name, record) if wrong is ANOTHER_WORKER else self._command(name, wrong)
        events = self._topics.events
        place = (events.name, partition_of(STREAM, events.partitions))
        after(self._rng.random(), self._log._land, place, [forged], None)

    def has_written(self, record: Record) -> bool:
        """Returns whether a record is forged."""
        return record.envelope.id in self._ids

    def _key_events(self, topic: Topic, partition: int) -> list[Outgoing]:
        of = {"topic": topic.name, "partition": partition}
        events: list[Event] = []
        for name, key in self._keys.items():
            worker = name if name in self._workers else ""
            octets = key.public_key.hex()
            if name != OWN:
                role = "worker" if worker else name
                trusted = KeyTrusted(**of, key_id=key.key_id, public_key=octets, role=role, worker_id=worker)
                events.append(trusted)
        events.append(SignatureModeChanged(**of, number=1, mode="require"))
        writer, stream = RecordWriter(SETUP, "1", self._keys[SETUP]), keys_stream(partition, topic.partitions)
        named = ((f"{topic.name}-{partition}-{number}", event) for number, event in enumerate(events))
        return [writer.signed(topic, writer.single(stream, event, message_id=name)) for name, event in named]

    def _end(self, name: str, accepted: Outgoing) -> Outgoing:
        """Returns the end of an attempt in the name of the worker that has it, signed by another worker."""
        event = TaskAccepted.model_validate_json(accepted.value or b"")
        worker = (dict(accepted.headers)["ce_source"] or b"").decode().rpartition("/")[2]
        other = next(each for each in self._workers if each != worker)
        token = event.model_dump(include={"task_id", "attempt", "placement", "incarnation"})
        writer = RecordWriter("worker", worker, self._keys[other])
        ended = AttemptEnded(**token, end=AttemptEnd.FINISHED)
        return writer.signed(self._topics.events, writer.single(STREAM, ended, message_id=name))

    def _command(self, name: str, wrong: str) -> Outgoing:
        """Returns a command as the dispatcher takes it in, which no one has published."""
        source = Source(topic=self._topics.commands.name, partition=0, offset=10**6 + len(self._ids))
        command = CommandReceived(
            command_id=name,
            command_type=Ping.wire_type(),
            body={},
            digest="0" * 64,
            source=source,
            publisher="trackside/publisher/forger",
            rules=RULES,
        )
        by = {UNKNOWN_KEY: OWN, ANOTHER_ROLE: self._workers[0], BAD_SIGNATURE: OWN}
        writer = RecordWriter("dispatcher", "0", self._keys.get(by.get(wrong, "")))
        record = writer.single(STREAM, command, message_id=name)
        if wrong is BROKEN_CHAIN:
            place = [("ce_decisionid", name.encode()), ("ce_index", b"1"), ("ce_count", b"2")]
            record = replace(record, headers=[*record.headers, *place])
        signed = writer.signed(self._topics.events, record)
        if wrong is BAD_SIGNATURE:
            copied = self._keys["dispatcher"].key_id.encode()
            headers = [(key, copied if key == KEY_ID else octets) for key, octets in signed.headers]
            return replace(signed, headers=headers)
        return signed
