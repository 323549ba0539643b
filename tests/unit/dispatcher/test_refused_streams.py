"""A flood of refused commands leaves memory and turns of the dispatcher as they were; what a receipt says."""

import gc
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.ids import new_id
from trackside.contracts.envelope.message import Envelope, Event, Message, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import AdvisorProcess
from trackside.dispatcher.intake.receipt_positions import earliest
from trackside.dispatcher.intake.receipts import ReceiptRequest, Receipts, find_answer
from trackside.dispatcher.service import Dispatcher
from trackside.dispatcher.settings import DispatcherSettings, topics_of
from trackside.domain.folding.streams import MAX_IDLE_IN_MEMORY, Streams
from trackside.eventlog.background import Background
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Entry
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.reactor.decider import DecisionContext
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.spill import SpillStore

TOPICS = Topics()
CONTEXT = DecisionContext(now_ms=1, busy=lambda topic, stream: False)
SETTLED = 40_000
FLOOD = 100_000
GROWTH_BYTES = 16 * 2**20
"""What the cache of partitions and the allocator's holes may take; the streams would take over 150 MiB."""


class Listening(AdviceLoop):
    def __init__(self) -> None:
        tuner, assessor = (AdvisorProcess(name, timeout_s=1) for name in ("tuner", "assessor"))
        super().__init__(tuner, assessor, Background())


class Loop:
    def __init__(self) -> None:
        self.streams = Streams(AGGREGATES, spilled=SpillStore())
        service = ServiceContext.on(MemoryLog(), TOPICS, "dispatcher")
        self._writer = service.writer
        self.dispatcher = Dispatcher(service, self.streams, Listening())
        self._read = 0
        self._ends = [0] * TOPICS.events.partitions

    def say(self, stream: str, command_id: str, max_trials: int = 1, again: int | None = None) -> None:
        """Publishes a search of an unknown task type; `again` reads the record of an offset twice."""
        body = {"task_type": "nope", "space": {"x": {"type": "uniform", "low": 0, "high": 1}}}
        value = json.dumps({**body, "max_trials": max_trials}).encode()
        headers = [("ce_id", command_id.encode()), ("ce_type", b"trackside.start-search.v1")]
        offset = self._read if again is None else again
        entry = Entry(TOPICS.commands.name, 0, offset, 1, stream.encode(), value, headers)
        self._read += again is None
        self.dispatcher.on_external_entry(entry)

    def turn(self) -> list[Event]:
        """Lets it decide until nothing is lacking; gives what came into the log."""
        said: list[Event] = []
        while decisions := list(self.dispatcher.decide(CONTEXT)):
            for decision in decisions:
                said += self.fold(decision.stream, decision.proposal.events)
        self.dispatcher.act(CONTEXT)
        return said

    def fold(self, stream: str, messages: Sequence[Message]) -> list[Event]:
        partition = partition_of(stream, TOPICS.events.partitions)
        for record, message in zip(self._writer.decision(stream, messages), messages, strict=True):
            envelope = Envelope({name: octets or b"" for name, octets in record.headers})
            at = self._ends[partition]
            self._ends[partition] += 1
            self.dispatcher.fold(Record(TOPICS.events.name, partition, at, 1, envelope, message))
        return [message for message in messages if isinstance(message, Event)]


def test_streams_that_need_whole_turns_take_them_one_after_the_other() -> None:
    loop = Loop()
    streams = ["a", "b", "c"]
    for stream in streams:
        loop.say(stream, "c-1")
    decided: list[str] = []
    for turn in range(2, 8):
        context = DecisionContext(now_ms=1, busy=lambda topic, stream: False, until_s=0.0)
        for decision in list(loop.dispatcher.decide(context)):
            events = loop.fold(decision.stream, decision.proposal.events)
            decided += [decision.stream] * bool(codes(events))
        loop.say("a", f"c-{turn}")
    assert decided[:4] == [*streams, "a"]


def flooded(loop: Loop, count: int) -> None:
    for start in range(0, count, 100):
        for _ in range(min(100, count - start)):
            loop.say(new_id("s"), new_id("c"))
        loop.turn()


def codes(events: Sequence[Event]) -> list[str]:
    answers = [event for event in events if isinstance(event, CommandAccepted | CommandRefused)]
    return [answer.code if isinstance(answer, CommandRefused) else "accepted" for answer in answers]


@pytest.mark.thorough
def test_a_stream_that_was_spilled_is_answered_as_if_it_had_not_been() -> None:
    loop = Loop()
    loop.say("s-1", "c-1")
    assert codes(loop.turn()) == ["unknown_task_type"]
    flooded(loop, 2 * MAX_IDLE_IN_MEMORY)
    assert "s-1" not in loop.streams.by_id
    assert len(loop.streams.by_id) == MAX_IDLE_IN_MEMORY
    assert loop.streams.spilled is not None and len(loop.streams.spilled) == MAX_IDLE_IN_MEMORY + 1
    loop.say("s-1", "c-1")
    assert codes(loop.turn()) == ["unknown_task_type"], "BI-21: the first answer again"
    flooded(loop, 2 * MAX_IDLE_IN_MEMORY)
    loop.say("s-1", "c-1", max_trials=2)
    assert codes(loop.turn()) == ["idempotency_conflict"], "BI-22, for ever"
    flooded(loop, 2 * MAX_IDLE_IN_MEMORY)
    loop.say("s-1", "c-1", again=0)
    assert loop.turn() == [], "what is read twice is in its stream, spilled or not"


@pytest.mark.thorough
def test_a_zombie_s_repeat_of_a_spilled_stream_counts_as_little_as_any() -> None:
    loop = Loop()
    loop.say("s-1", "c-1")
    (received, *_) = loop.turn()
    assert isinstance(received, CommandReceived)
    flooded(loop, 2 * MAX_IDLE_IN_MEMORY)
    overtaken = loop.streams.overtaken
    loop.fold("s-1", [received])
    assert loop.streams.overtaken == overtaken + 1
    assert loop.turn() == []


@pytest.mark.thorough
def test_the_memory_is_flat_after_100_000_refused_streams() -> None:
    loop = Loop()
    flooded(loop, SETTLED)
    before = _resident_bytes()
    flooded(loop, FLOOD - SETTLED)
    assert len(loop.streams.by_id) == MAX_IDLE_IN_MEMORY
    assert _resident_bytes() - before < GROWTH_BYTES


def _resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


COMMANDS = Topics().commands.name


def wanted(offset: int, command_id: str = "c-1") -> ReceiptRequest:
    source = Source(topic=COMMANDS, partition=0, offset=offset)
    return ReceiptRequest("inbox", "s-1", command_id, source)


def test_a_receipt_after_a_start_says_what_the_log_says() -> None:
    loop = Loop()
    said = []
    for max_trials in (1, 1, 2):
        loop.say("s-1", "c-1", max_trials)
        said += [event for event in loop.turn() if isinstance(event, CommandRefused)]
    assert codes(said) == ["unknown_task_type", "unknown_task_type", "idempotency_conflict"]
    assert [find_answer(loop.streams, wanted(offset)) for offset in range(3)] == said
    assert find_answer(loop.streams, wanted(3)) is None
    assert find_answer(loop.streams, wanted(0, "c-2")) is None


def test_reading_begins_again_at_the_first_receipt_that_is_lacking() -> None:
    receipts = Receipts(MemoryLog(), RecordWriter("dispatcher", "1"), Background(), {"inbox"})
    receipts.read(0, 4)
    assert receipts.positions() == {0: 5}
    receipts.request(wanted(7))
    receipts.request(wanted(5))
    receipts.read(0, 7)
    assert receipts.positions() == {0: 5}
    place = (COMMANDS, 0)
    assert earliest(place, 9, 2, None) == 2
    assert earliest(place, 9, 2, {}) == 9
    assert earliest(place, 9, 2, {place: 5}) == 5
    assert earliest(place, 9, 2, {place: 1}) == 2, "what is gone can't be read"
    assert earliest(place, 9, 2, {place: 12}) == 9


@pytest.mark.parametrize("named", ["trackside.events", "t1.trackside.logs", "a/b", "x" * 250, "..", "a,*"])
def test_an_operator_can_not_allow_a_topic_of_ours_or_what_is_none(named: str) -> None:
    with pytest.raises(ValidationError, match="not Trackside's own"):
        DispatcherSettings(receipt_topics=f"fine, {named}")
    assert topics_of(" a.b ,c,") == {"a.b", "c"}
