"""Publishers take turns: one that floods the topic delays itself alone, and what is held stays bounded."""

import asyncio
from collections import Counter

import pytest

from tests.unit.dispatcher.harness import EVENTS, LIMIT_S, TOPICS, dispatcher, events, new_log
from tests.unit.domain.given import received
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused, Ping
from trackside.dispatcher.intake.fair_queue import QUANTUM_BYTES, TURN_BYTES, FairQueue, WaitingCommand
from trackside.dispatcher.intake.intake import MAX_HELD
from trackside.dispatcher.intake.passed_over import PassedOver
from trackside.dispatcher.service import Dispatcher
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Outgoing
from trackside.eventlog.reactor.reactor import MOST_READ

FLOOD, FEW = 20_000, 10


def waiting(publisher: str, offset: int, size_bytes: int = 500) -> WaitingCommand:
    return WaitingCommand(publisher, "s", received(offset, publisher=publisher), "", size_bytes, at_ms=1)


def queue_of(*commands: WaitingCommand) -> FairQueue:
    queue = FairQueue()
    for command in commands:
        queue.add(command)
    return queue


def test_publishers_are_taken_in_turn_and_each_in_its_own_order() -> None:
    flood = [waiting("flood", offset) for offset in range(1_000)]
    few = [waiting("few", 1_000 + offset) for offset in range(10)]
    turn = queue_of(*flood, *few).turn()
    assert [each for each in turn if each.publisher == "few"] == few
    assert [each for each in turn if each.publisher == "flood"] == flood[: len(turn) - 10]
    assert turn.index(few[-1]) <= 3 * QUANTUM_BYTES // 500 + 10
    assert sum(each.size_bytes for each in turn) < TURN_BYTES + QUANTUM_BYTES


def test_a_publisher_with_large_commands_has_its_share_of_the_bytes_and_is_not_left_out() -> None:
    small = [waiting(f"p-{each}", each * 1_000 + at) for each in range(40) for at in range(40)]
    large = waiting("large", 99_999, size_bytes=10 * QUANTUM_BYTES)
    queue, turns = queue_of(*small, large), 0
    while large not in (turn := queue.turn()):
        turns += 1
        assert turns < 15
        for command in turn:
            queue.remove(command)
            queue.add(waiting(command.publisher, command.event.source.offset + 100_000))


def test_what_was_passed_over_is_kept_as_ranges() -> None:
    passed = PassedOver()
    for offset in (3, 4, 5, 9, 10):
        passed.add("a", (1, offset))
    passed.add("b", (1, 11))
    assert (passed.ranges, len(passed), passed.starts, passed.ends) == (2, 6, {1: 3}, {1: 12})
    assert (1, 4) in passed and (1, 7) not in passed and (0, 4) not in passed
    passed.remove("a", (1, 4))
    assert (passed.ranges, passed.starts) == (3, {1: 3})
    passed.remove("b", (1, 11))
    assert passed.is_behind("a", 1) and not passed.is_behind("b", 1)
    for offset in (3, 5, 9, 10):
        passed.remove("a", (1, offset))
    assert not passed and not passed.is_behind("a", 1)


class Watched(Dispatcher):
    most_held = most_ranges = 0

    def decide(self, facts):  # type: ignore[no-untyped-def]
        self.most_held = max(self.most_held, len(self._intake))
        self.most_ranges = max(self.most_ranges, self._intake.passed_over.ranges)
        return super().decide(facts)


def ping(source: str, stream: str, command_id: str) -> Outgoing:
    return RecordWriter("publisher", source).single(stream, Ping(), message_id=command_id)


@pytest.mark.thorough
async def test_a_publisher_that_floods_does_not_delay_another_and_all_is_answered_once() -> None:
    log = await new_log()
    flood = [(f"f-{n}", ping("flood", f"f-{n}", f"f-{n}")) for n in range(FLOOD)]
    few = [(f"few-{n}", ping("few", f"few-{n}", f"few-{n}")) for n in range(FEW)]
    for stream, record in (*flood, *few):
        await log.append(TOPICS.commands.name, partition_of(stream, 4), [record])
    answers: Counter[str] = Counter()
    async with dispatcher(log, kind=Watched) as watched, asyncio.timeout(4 * LIMIT_S):
        async for found in events(log):
            if isinstance(found.message, CommandAccepted | CommandRefused):
                answers[found.message.command_id] += 1
                if len(answers) == FLOOD + FEW:
                    break
    assert set(answers.values()) == {1}
    received = [
        record.message.publisher
        for record in map(decode, await log.reader({EVENTS: 0}).read(0.0, 10**6))
        if record is not None and isinstance(record.message, CommandReceived)
    ]
    assert len(received) == FLOOD + FEW
    last = max(at for at, publisher in enumerate(received) if publisher.endswith("few"))
    assert last < FLOOD / 4, "those of the other publisher do not wait for the whole flood"
    assert watched.most_held <= MAX_HELD
    assert watched.most_ranges <= 10 * MOST_READ
