"""Commands that a stream sends to another one: each has its effect once, whoever writes it when."""

from collections.abc import Iterator

import pytest

from tests.aggregates.registered import repeats_registered
from tests.aggregates.repeat.messages import (
    ExtendRepeat,
    RepeatEnded,
    RepeatExtended,
    RepeatExtensionAnswered,
    StartRepeat,
)
from tests.unit.aggregates.given import CAPABILITIES, published
from tests.unit.domain.given import STREAM, Told, assigned, begun, ended, record_of
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.commands import CommandReceived, CommandRefused, Source
from trackside.dispatcher.watchers import Watchers
from trackside.domain.commands import stream_commands
from trackside.domain.commands.react import react as react_to
from trackside.domain.folding.streams import Streams, dump, load
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.outgoing import answer_of, effect_is_read

OTHER = "digits-2"
EVENTS = "trackside.events"
PARTITIONS = {STREAM: 3, OTHER: 4}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with repeats_registered():
        yield


def write(told: Told, stream: str, *events: Event, role: str = "dispatcher") -> list[Outcome]:
    name, count = f"d-{told.next_offset}", len(events)
    return [
        told.fold(record_of(event, 0, role, stream, (name, index, count), PARTITIONS[stream]))
        for index, event in enumerate(events)
    ]


def start(told: Told, stream: str, number: int, **more: str) -> None:
    body = {"task_type": "digits", **more}
    write(told, stream, published(number, StartRepeat.wire_type(), {"times": 1, **body}))
    react(told, stream)
    assert told.streams.by_id[stream].root is not None


def react(told: Told, stream: str) -> list[Event]:
    written: list[Event] = []
    while proposals := react_to(told.streams.by_id[stream], CAPABILITIES, AGGREGATES):
        assert set(write(told, stream, *proposals[0].events)) == {Outcome.APPLIED}
        written += proposals[0].events
    return written


def finish(told: Told, stream: str, run: int = 0) -> None:
    for event, role in ((assigned(), "scheduler"), (begun(), "worker"), (ended(), "worker")):
        of_task = event.model_copy(update={"task_id": f"{stream}.{run}"})
        assert write(told, stream, of_task, role=role) == [Outcome.APPLIED]
    assert any(isinstance(event, RepeatEnded) for event in react(told, stream))


def done(extends: str = OTHER) -> Told:
    """Returns a log in which the repeat is done, which is to extend another one that is done, too."""
    told = Told()
    start(told, OTHER, 1)
    finish(told, OTHER)
    start(told, STREAM, 2, extends=extends)
    finish(told, STREAM)
    return told


def pending(streams: Streams) -> list[tuple[str, Proposal]]:
    return list(stream_commands.pending(streams.by_id[STREAM], streams.find, AGGREGATES, EVENTS))


def send(told: Told) -> CommandReceived:
    [(stream, proposal)] = pending(told.streams)
    [command] = proposal.events
    assert stream == OTHER and isinstance(command, CommandReceived)
    assert write(told, stream, command) == [Outcome.APPLIED]
    return command


def note_answer(told: Told) -> list[Event]:
    """Writes what follows for the sender from the state of the other stream."""
    sender = told.stream
    aggregate = AGGREGATES.by_kind["repeat"]
    written: list[Event] = []
    for proposal in aggregate.signalled(sender, told.streams.find, AGGREGATES):
        assert set(write(told, STREAM, *proposal.events)) == {Outcome.APPLIED}
        assert proposal.follows_in == OTHER
        written += proposal.events
    return written


def folded(told: Told, *, without: range) -> Streams:
    late = Streams(AGGREGATES)
    for record in told.records:
        if record.offset not in without:
            late.fold(record)
    return late


def test_the_event_that_asks_is_the_source_the_cause_and_the_id_of_the_command() -> None:
    told = done()
    [(stream, proposal)] = pending(told.streams)
    asked_at = told.stream.root.ended_at
    [command] = proposal.events
    assert isinstance(command, CommandReceived)
    assert (stream, command.command_type, command.body) == (OTHER, ExtendRepeat.wire_type(), {"more": 1})
    assert command.source == Source(topic=EVENTS, partition=PARTITIONS[STREAM], offset=asked_at)
    assert (command.command_id, command.publisher) == (f"{STREAM}@{asked_at}", f"trackside/stream/{STREAM}")
    assert (proposal.follows, proposal.follows_in) == (asked_at, STREAM)
    told.streams.by_id[STREAM] = load(dump(told.stream), AGGREGATES)
    assert [(name, again.events) for name, again in pending(told.streams)] == [(OTHER, proposal.events)]
    told = Told()
    start(told, STREAM, 1)
    finish(told, STREAM)
    assert pending(told.streams) == [], "it asks for nothing"


def test_a_command_for_a_stream_in_another_partition_has_its_effect_once() -> None:
    told = done()
    before = told.next_offset
    command = send(told)
    assert (pending(told.streams), write(told, OTHER, command)) == ([], [Outcome.DUPLICATE])
    assert answer_of(told.stream, told.stream.root.ended_at, told.streams.find(OTHER)) is None
    assert note_answer(told) == []
    extended = RepeatExtended(command_id=command.command_id, times=2)
    assert [event for event in react(told, OTHER) if isinstance(event, RepeatExtended)] == [extended]
    late = folded(told, without=range(before, told.next_offset))
    [(stream, proposal)] = pending(late)
    assert write(told, stream, *proposal.events) == [Outcome.DUPLICATE], "it has not read the other stream"
    assert (pending(told.streams), react(told, OTHER)) == ([], [])


def test_the_answer_is_noted_once_its_effect_is_read_and_then_nothing_is_asked() -> None:
    told = done()
    send(told)
    [proposal] = react_to(told.streams.by_id[OTHER], CAPABILITIES, AGGREGATES)
    asked_at, decided_at = told.stream.root.ended_at, told.next_offset
    write(told, OTHER, *proposal.events)
    for last, is_read in ((decided_at + 1, False), (decided_at + 2, True)):
        other = folded(told, without=range(last, told.next_offset)).by_id[OTHER]
        answer = answer_of(told.stream, asked_at, other)
        assert answer is not None and effect_is_read(answer, other) is is_read
        assert (other.root.times == 2) is is_read
    react(told, OTHER)
    assert note_answer(told) == [RepeatExtensionAnswered(asked_at=asked_at, refused="")]
    assert (note_answer(told), pending(told.streams)) == ([], [])
    repeated = RepeatExtensionAnswered(asked_at=asked_at, refused="already_terminal")
    assert write(told, STREAM, repeated) == [Outcome.OVERTAKEN]


@pytest.mark.parametrize("code", ["already_terminal", "unknown_repeat"])
def test_a_refusal_is_seen_by_the_stream_that_has_sent_the_command(code: str) -> None:
    if code == "already_terminal":
        told = done()
        stop = published(7, "trackside.stop-repeat.v1", {})
        write(told, OTHER, published(6, ExtendRepeat.wire_type(), {"more": 1}), stop)
        react(told, OTHER)
    else:  # there is no such stream
        told = Told()
        start(told, STREAM, 2, extends=OTHER)
        finish(told, STREAM)
    send(told)
    assert any(isinstance(event, CommandRefused) for event in react(told, OTHER))
    asked_at = told.stream.root.ended_at
    answer = answer_of(told.stream, asked_at, told.streams.find(OTHER))
    assert answer is not None and [problem.code for problem in answer.refusal] == [code]
    assert note_answer(told) == [RepeatExtensionAnswered(asked_at=asked_at, refused=code)]


def extend_itself(told: Told) -> None:
    """Extends the sender by a run, so that it asks for nothing until that is over."""
    write(told, STREAM, published(5, ExtendRepeat.wire_type(), {"more": 1}))
    react(told, STREAM)


def test_what_is_asked_for_no_more_is_not_sent_and_a_later_event_asks_again() -> None:
    told = done()
    first = told.stream.root.ended_at
    extend_itself(told)
    assert pending(told.streams) == []
    finish(told, STREAM, run=1)
    command = send(told)
    assert told.stream.root.ended_at > first
    assert command.command_id == f"{STREAM}@{told.stream.root.ended_at}"


def test_the_answer_to_what_was_asked_before_a_change_of_mind_is_not_that_to_the_later_command() -> None:
    told = done()
    send(told)
    react(told, OTHER)
    first = told.stream.root.ended_at
    extend_itself(told)
    finish(told, STREAM, run=1)
    assert note_answer(told) == []
    stale = RepeatExtensionAnswered(asked_at=first, refused="")
    assert write(told, STREAM, stale) == [Outcome.OVERTAKEN]
    finish(told, OTHER, run=1)
    send(told)
    react(told, OTHER)
    assert note_answer(told) == [RepeatExtensionAnswered(asked_at=told.stream.root.ended_at, refused="")]


def test_the_sender_is_looked_at_again_when_the_other_stream_answers_and_no_longer_after_that() -> None:
    told = done()
    watchers = Watchers(told.streams)
    assert list(watchers.of(OTHER)) == [STREAM]
    send(told)
    react(told, OTHER)
    other = told.streams.by_id[OTHER]
    assert list(watchers.fold(other)) == [STREAM]
    note_answer(told)
    watchers.fold(told.stream)
    assert list(watchers.fold(other)) == []
