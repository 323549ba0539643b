"""What a worker writes to a stream in which it has no placement has no effect, whatever type it has."""

from collections.abc import Iterable

import pytest

from tests.unit.signing.given import KEYS, STREAM, TOPIC, SignedPartition, received, requiring
from trackside.aggregates import documents
from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.parking import UnknownRecord
from trackside.contracts.tasks.tasks import (
    AttemptEnd,
    AttemptEnded,
    TaskAccepted,
    TaskAssigned,
    TaskSubmitted,
)
from trackside.contracts.trust.encryption import PUBLIC_KEY
from trackside.domain.folding.streams import dump
from trackside.domain.outcome import Outcome
from trackside.domain.tasks.task_events import KINDS
from trackside.eventlog.keys.decision_signer import DecisionSigner, new_signer
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Outgoing

APPLIED, OVERTAKEN, PARKED = Outcome.APPLIED, Outcome.OVERTAKEN, Outcome.PARKED
WRITTEN = sorted(
    (kind for kind in CODEC.messages if issubclass(kind, Event) and "worker" in kind.written_by),
    key=lambda kind: kind.__name__,
)
TOKEN = {"task_id": "t", "attempt": 1, "placement": 1, "incarnation": "i-1"}


class Installation(SignedPartition):
    """A partition with a task that worker w1 has, and the keys of w1, w2 and the other services."""

    def __init__(self) -> None:
        made = requiring()
        super().__init__(made.partition, made.entries, made.streams, made.root, made.dispatcher)
        self.keys: dict[str, DecisionSigner] = {}
        for name in ("scheduler", "summary-indexer", "w1", "w2"):
            self.keys[name] = new_signer()
            is_worker = name.startswith("w")
            self.trust(self.keys[name], "worker" if is_worker else name, name if is_worker else "")
        self.decide(received())
        self.decide([TaskSubmitted(task_id="t", task_type="digits", parameters={})])
        assigned = TaskAssigned(**TOKEN, worker_id="w1", device_ids=["cpu-0"], seen=3)
        assert self.decide([assigned], role="scheduler", signer=self.keys["scheduler"]) == [APPLIED]

    def write(self, name: str, message: Event, stream: str = STREAM, **headers: bytes) -> Outcome:
        """Appends an event, signed with its writer's own key; a worker's if the name is of none else."""
        role = name if name in ("dispatcher", "scheduler", "summary-indexer") else "worker"
        signer = self.dispatcher if name == "dispatcher" else self.keys[name]
        writer = RecordWriter(role, name)
        [plain] = writer.decision(stream, [message], topic=TOPIC)
        changed = {**dict(plain.headers), **headers}
        [outcome] = self.append(signer.sign(TOPIC, [Outgoing(plain.key, plain.value, [*changed.items()])]))
        return outcome

    def states(self) -> list[bytes]:
        return [dump(each) for name, each in sorted(self.streams.by_id.items()) if name != KEYS]


def examples(kinds: Iterable[type[Event]]) -> list[Event]:
    """Returns an event of each type; what names a placement names the one that w1 has."""
    found = []
    for kind in kinds:
        example = documents.examples()[kind.wire_type()]
        assert isinstance(example, Event)
        known = {name: value for name, value in TOKEN.items() if name in kind.model_fields}
        found.append(example.model_copy(update=known))
    return found


@pytest.mark.parametrize("event", examples(WRITTEN), ids=lambda event: type(event).__name__)
def test_an_event_of_a_worker_has_no_effect_where_it_has_no_placement(event: Event) -> None:
    log = Installation()
    other = next(name for name in (f"s-{at}" for at in range(99)) if log.partition == partition(name))
    for stream in (STREAM, other):
        before = log.states()
        assert log.write("w2", event, stream) is OVERTAKEN
        assert log.states() == before
    assert log.write("w1", event, other) is OVERTAKEN


def partition(stream: str) -> int:
    return partition_of(stream, Topics().event_partitions)


def test_the_worker_that_has_the_placement_writes_most_of_these() -> None:
    applied = set()
    for event in examples(WRITTEN):
        log = Installation()
        log.write("w1", TaskAccepted(**TOKEN))
        if log.write("w1", event) is APPLIED:
            applied.add(type(event))
    assert {AttemptEnded} < applied


def test_each_event_about_a_task_that_workers_write_names_its_placement() -> None:
    lacking = {
        kind.__name__: missing
        for kind in WRITTEN
        if kind in KINDS and (missing := {"task_id", "attempt", "placement"} - set(kind.model_fields))
    }
    assert lacking == {}


def test_a_type_to_come_parks_a_stream_only_if_its_worker_has_a_placement_there() -> None:
    log, new = Installation(), UnknownRecord(unknown_type="")
    before = log.states()
    for stream in (STREAM, "begins-later"):
        assert log.write("w2", new, stream, ce_type=b"trackside.thing-done.v7") is OVERTAKEN
    assert log.reasons == ["another_worker"]
    assert log.states() == before
    assert log.write("w1", new, ce_type=b"trackside.thing-done.v7") is PARKED

    log = Installation()
    log.write("w1", TaskAccepted(**TOKEN))
    assert log.write("w1", AttemptEnded(**TOKEN, end=AttemptEnd.FINISHED)) is APPLIED
    assert log.stream.placed == {}
    assert log.write("w1", new, ce_type=b"trackside.thing-done.v7") is OVERTAKEN


def test_a_type_to_come_of_the_indexer_parks_nothing_and_one_of_a_service_that_decides_does() -> None:
    log, new = Installation(), UnknownRecord(unknown_type="")
    assert log.write("summary-indexer", new, ce_type=b"trackside.thing-done.v7") is OVERTAKEN
    assert log.stream.parked is None
    assert log.write("scheduler", new, ce_type=b"trackside.thing-done.v7") is PARKED


@pytest.mark.parametrize("name", ["w1", "w2", "summary-indexer"])
def test_what_is_encrypted_for_another_stream_parks_nothing(name: str) -> None:
    log = Installation()
    before = log.states()
    for message in (TaskAccepted(**TOKEN), UnknownRecord(unknown_type="")):
        assert log.write(name, message, STREAM, **{PUBLIC_KEY: b"YWJj"}) is OVERTAKEN
    assert log.states() == before
