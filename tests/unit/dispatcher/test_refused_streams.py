"""A flood of refused commands, each on a stream of its own, leaves the dispatcher's memory as it was."""

import gc
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.ids import new_id
from trackside.contracts.message import Envelope, Event, Message, Record
from trackside.contracts.topics import Topics, partition_of
from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import AdvisorProcess
from trackside.dispatcher.service import Dispatcher
from trackside.domain.streams import MAX_IDLE_IN_MEMORY, Streams
from trackside.eventlog.background import Background
from trackside.eventlog.decider import Facts
from trackside.eventlog.log import Entry
from trackside.eventlog.memory import MemoryLog
from trackside.eventlog.service_context import ServiceContext
from trackside.eventlog.spill import SpillStore

TOPICS = Topics()
FACTS = Facts(now_ms=1, busy=lambda topic, stream: False)
SETTLED = 40_000
FLOOD = 100_000
GROWTH_BYTES = 16 * 2**20
"""What the cache of partitions and the allocator's holes may take; the streams would take over 150 MiB."""


class Listening(AdviceLoop):
    """Sends no request."""

    def __init__(self) -> None:
        super().__init__(
            AdvisorProcess("tuner", timeout_s=1), AdvisorProcess("assessor", timeout_s=1), Background()
        )


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
        self.dispatcher.arrive(entry)

    def turn(self) -> list[Event]:
        """Lets it decide until nothing is lacking; gives what came into the log."""
        said: list[Event] = []
        while decisions := list(self.dispatcher.decide(FACTS)):
            for decision in decisions:
                said += self._fold(decision.stream, decision.proposal.events)
        self.dispatcher.act(FACTS)
        return said

    def _fold(self, stream: str, messages: Sequence[Message]) -> list[Event]:
        partition = partition_of(stream, TOPICS.events.partitions)
        for record, message in zip(self._writer.decision(stream, messages), messages, strict=True):
            envelope = Envelope({name: octets or b"" for name, octets in record.headers})
            at = self._ends[partition]
            self._ends[partition] += 1
            self.dispatcher.fold(Record(TOPICS.events.name, partition, at, 1, envelope, message))
        return [message for message in messages if isinstance(message, Event)]


def flooded(loop: Loop, count: int) -> None:
    for start in range(0, count, 100):
        for _ in range(min(100, count - start)):
            loop.say(new_id("s"), new_id("c"))
        loop.turn()


def codes(events: Sequence[Event]) -> list[str]:
    return [
        event.code if isinstance(event, CommandRefused) else "accepted"
        for event in events
        if isinstance(event, CommandAccepted | CommandRefused)
    ]


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
    loop._fold("s-1", [received])
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
