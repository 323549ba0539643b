"""Forgotten streams: a command that has one forgotten, and readers with and without its key that agree."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.unit.aggregates.given import CAPABILITIES, published
from tests.unit.domain import given
from tests.unit.domain.plausible import Chance
from tests.unit.domain.plausible_forgetting import EncryptedTold, encrypted, forgotten, without_key
from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import SearchEnded, SearchStatus
from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.streams.forgetting import ForgetStream, StreamForgotten
from trackside.contracts.streams.parking import RecordSkipped, SkipRecord
from trackside.contracts.trust.encryption import PUBLIC_KEY
from trackside.domain.commands.react import react
from trackside.domain.commands.stream_commands import pending
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.streams import Streams, dump, load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams.child import Child
from trackside.domain.streams.parking import ITS_KEY
from trackside.domain.streams.stream import Stream, shrink

FORGET = ForgetStream(reason="a person has asked for it")
APPLIED, OVERTAKEN, PARKED, DUPLICATE = Outcome.APPLIED, Outcome.OVERTAKEN, Outcome.PARKED, Outcome.DUPLICATE


def ended_search() -> given.Told:
    told = given.search_running(told=EncryptedTold(), max_trials=2)
    for trial, value in enumerate((0.5, 0.75)):
        told.tell(given.suggested(trial), given.submitted(trial))
        given.finish(told, trial, value)
    told.tell(SearchEnded(status=SearchStatus.DONE, trials=2))
    return told


def ask(told: given.Told, command_id: str = "c-forget") -> None:
    event = published(told.next_offset, FORGET.wire_type(), FORGET.model_dump(), command_id=command_id)
    assert told.tell(event) == [APPLIED]


def decided(told: given.Told, stream: Stream | None = None) -> list[Event]:
    (proposal,) = react(stream or told.stream, CAPABILITIES, AGGREGATES)
    return list(proposal.events)


def forget(told: given.Told) -> StreamForgotten:
    ask(told)
    (event,) = decided(told)
    assert isinstance(event, StreamForgotten)
    assert told.tell(event) == [APPLIED]
    return event


def refusal(told: given.Told) -> CommandRefused:
    ask(told)
    (event,) = decided(told)
    assert isinstance(event, CommandRefused)
    return event


def read_without_key(records: Sequence[Record], begin: int = 0) -> Streams:
    """Folds a log with a reader that has the key up to a place in it only."""
    streams = Streams(AGGREGATES)
    for at, record in enumerate(records):
        streams.fold(record if at < begin else without_key(record))
    return streams


def test_a_search_that_is_over_is_forgotten_with_its_counts_and_nothing_else_of_it_is_left() -> None:
    told = ended_search()
    assert b'"lr"' in dump(told.stream)
    shrink(told.stream)
    ask(told)
    (event,) = decided(told)
    assert told.tell(event, role="worker") == [OVERTAKEN], "only a dispatcher has it forgotten"
    assert told.tell(given.suggested(0), event)[1] is OVERTAKEN
    assert told.each(event, event) == [APPLIED, DUPLICATE]
    found = told.stream.forgotten
    assert found is not None
    assert (found.kind, found.status, found.unit) == ("search", "DONE", "trials")
    assert (found.ended, found.total, found.ends) == (2, 2, {"SUCCEEDED": 2})
    assert 0 < found.started_ms < found.ended_ms < found.forgotten_ms
    assert told.stream.root is None and not told.stream.tasks
    assert b'"lr"' not in dump(told.stream)
    assert set(told.stream.commands) == {"c-forget"}


def test_commands_for_a_forgotten_stream_are_accepted_if_they_forget_it_again_and_refused_else() -> None:
    told = ended_search()
    forget(told)
    for ask_again in (True, False):
        accepted = decided(told)
        assert ([type(event) for event in accepted], told.tell(*accepted)) == ([CommandAccepted], [APPLIED])
        assert PUBLIC_KEY not in told.records[-1].envelope.headers
        assert react(told.stream, CAPABILITIES, AGGREGATES) == []
        if ask_again:
            ask(told, "c-again")
    assert told.tell(given.received(90)) == [APPLIED]
    (refused,) = decided(told)
    assert isinstance(refused, CommandRefused)
    assert refused.code == "stream_forgotten"


def test_commands_that_ask_for_the_same_are_answered_together_and_open_ones_before_that() -> None:
    told = ended_search()
    ask(told, "c-forget")
    ask(told, "c-other")
    told.tell(given.received(70))
    (answer,) = decided(told)
    assert isinstance(answer, CommandRefused)
    assert answer.command_id == "c-70"
    told.tell(answer)
    told.tell(*decided(told))
    assert told.stream.forgotten is not None
    for name in ("c-forget", "c-other"):
        (accepted,) = decided(told)
        assert isinstance(accepted, CommandAccepted)
        assert accepted.command_id == name
        told.tell(accepted)
    assert react(told.stream, CAPABILITIES, AGGREGATES) == []


@pytest.mark.parametrize("begin", [0, 3, 1_000])
def test_a_stream_is_not_forgotten_if_a_command_was_received_meanwhile(begin: int) -> None:
    told = ended_search()
    ask(told)
    (event,) = decided(told)
    told.tell(given.received(70))
    assert told.tell(event) == [OVERTAKEN]
    other = read_without_key(told.records, begin)
    assert other.by_id[given.STREAM].forgotten is None


def test_what_runs_or_has_not_begun_and_a_stream_that_is_not_encrypted_are_not_forgotten() -> None:
    refused = refusal(given.search_running(told=EncryptedTold()))
    assert refused.code == "not_over"
    assert "its search is not over" in refused.message
    assert refusal(EncryptedTold()).code == "unknown_stream"
    told = given.search_running(max_trials=1)
    assert refusal(told).code == "not_encrypted"
    before = dump(told.stream)
    assert told.tell(forgotten(told.stream.commands_at)) == [OVERTAKEN]
    assert load(before, AGGREGATES).root == told.stream.root


def test_a_stream_with_refused_commands_alone_is_forgotten() -> None:
    told = EncryptedTold()
    told.tell(given.received(1))
    told.tell(*decided(told))
    forget(told)
    assert told.stream.forgotten is not None
    assert told.stream.forgotten.kind == ""


@pytest.mark.parametrize("over", [True, False])
def test_a_child_is_forgotten_once_its_parent_is_over(over: bool) -> None:
    told = ended_search()
    command = told.stream.commands.pop("c-1")
    command.command_id = "parent@4"
    told.stream.commands["parent@4"] = command
    parent = Stream("parent", 3, kind="search", root=given.search_running().stream.root, closed=over)
    ask(told)

    class Index:
        def lookup(self, capabilities: Any) -> Lookup:
            return Lookup(capabilities, {"parent": parent}.get)

    (proposal,) = react(told.stream, CAPABILITIES, AGGREGATES, Index())  # type: ignore[arg-type]
    (event,) = proposal.events
    assert isinstance(event, StreamForgotten if over else CommandRefused)


def test_a_reader_without_the_key_parks_the_stream_holds_nothing_and_skips_no_record_of_it() -> None:
    told = ended_search()
    streams = read_without_key(told.records)
    found = streams.by_id[given.STREAM]
    assert found.parked is not None
    assert (found.parked.needs, found.parked.heard) == (ITS_KEY, {})
    assert found.root is None
    assert found.public_key == told.stream.public_key
    skipped = RecordSkipped(command_id="c", partition=3, offset=found.parked.offset, reason="")
    assert streams.fold(given.record_of(skipped, told.next_offset))[1] is OVERTAKEN
    command = SkipRecord(partition=3, offset=found.parked.offset, reason="why not")
    asked = published(80, command.wire_type(), command.model_dump())
    assert streams.fold(given.record_of(asked, told.next_offset + 1))[1] is APPLIED
    (refused,) = decided(told, found)
    assert isinstance(refused, CommandRefused)
    assert refused.code == "key_missing"


def test_readers_with_and_without_the_key_agree_once_a_stream_is_forgotten() -> None:
    told = ended_search()
    forget(told)
    told.tell(*decided(told))
    told.tell(given.received(90))
    told.tell(*decided(told))
    late = encrypted(given.record_of(given.received(91), told.next_offset))
    before = len(told.stream.commands)
    assert given.Told.fold(told, late) is OVERTAKEN, "what is encrypted has no effect any more"
    assert len(told.stream.commands) == before
    for begin in range(0, 24, 3):
        found = read_without_key(told.records, begin).by_id[given.STREAM]
        assert (found, dump(found), load(pack(found), AGGREGATES)) == (told.stream, dump(told.stream), found)


def test_a_command_from_another_stream_reaches_a_forgotten_one_without_its_body() -> None:
    told = ended_search()
    forget(told)
    child = Child(given.STREAM, "search", {"name": "Ada"}, requested_at=4, requested_ms=0)
    parent = Stream("parent", 3, kind="batch", children={given.STREAM: child})
    ((_, proposal),) = pending(parent, {given.STREAM: told.stream}.get, AGGREGATES, "trackside.events")
    (event,) = proposal.events
    assert isinstance(event, CommandReceived)
    assert event.body is None


@pytest.mark.thorough
@hypothesis.settings(max_examples=40)
@hypothesis.given(st.integers(0, 2**32))
def test_readers_agree_whatever_was_in_the_stream(seed: int) -> None:
    random = Random(seed)
    drawn = Chance(random).history(random.randint(5, 120))
    told = given.Told()
    for record in drawn.records:
        told.fold(encrypted(record))
    if given.STREAM not in told.streams.by_id:
        return
    at = random.choice([told.stream.commands_at, told.stream.commands_at, told.next_offset])
    told.tell(forgotten(at))
    if told.stream.forgotten is None:
        told.tell(forgotten(told.stream.commands_at))
    assert told.stream.forgotten is not None
    for record in random.sample(drawn.records, min(20, len(drawn.records))):
        told.fold(replace(encrypted(record) if random.random() < 0.7 else record))
    begin = random.randint(0, len(drawn.records))
    found = read_without_key(told.records, begin).by_id[given.STREAM]
    assert dump(found) == dump(told.stream)
    streams, count = Streams(AGGREGATES), len(drawn.records)
    outcomes = [streams.fold(without_key(record))[1] for record in told.records]
    assert outcomes[count:] == told.outcomes[count:]
