"""Streams that are parked by a record of a newer release, and repaired or read by that release later."""

from dataclasses import replace

import pytest

from tests.unit.aggregates.given import CAPABILITIES, published
from tests.unit.domain.given import (
    STREAM,
    Told,
    accepted,
    fold_on,
    received,
    record_of,
    search_running,
    suggested,
)
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.commands import RULES, CommandAccepted, CommandRefused
from trackside.contracts.streams.parking import RecordSkipped, SkipRecord, UnknownRecord
from trackside.domain.commands.react import react
from trackside.domain.folding.streams import Streams, dump, load, pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import told as why

NEW = UnknownRecord(unknown_type="trackside.trial-cloned.v1")
APPLIED, OVERTAKEN, PARKED = Outcome.APPLIED, Outcome.OVERTAKEN, Outcome.PARKED


def parked() -> tuple[Told, int]:
    """Returns a running search that an event of a newer release has parked, and the offset of that."""
    told = search_running()
    assert told.tell(NEW, role="dispatcher") == [PARKED]
    return told, told.next_offset - 1


def skip(offset: int, partition: int = 3) -> RecordSkipped:
    reason = "a test wrote it"
    return RecordSkipped(command_id="c-skip", partition=partition, offset=offset, reason=reason)


def numbers(told: Told) -> list[int]:
    return [trial.number for trial in told.stream.root.trials]


def asked(told: Told, command: SkipRecord, command_id: str = "c-skip") -> list[Event]:
    """Tells that a command for the stream was received; returns what is decided then."""
    event = published(told.next_offset, command.wire_type(), command.model_dump(), command_id=command_id)
    assert told.tell(event) == [APPLIED]
    (proposal,) = react(told.stream, CAPABILITIES, AGGREGATES)
    return list(proposal.events)


@pytest.mark.parametrize("begun", [True, False])
def test_an_event_of_an_unknown_type_or_with_rules_of_a_newer_release_parks_its_stream(begun: bool) -> None:
    told = search_running() if begun else Told()
    assert (told.tell(NEW, role="dispatcher"), told.tell(received(9))) == ([PARKED], [APPLIED])
    assert told.stream.parked is not None
    needs, offset = "needs a newer release: ", told.next_offset - 2
    assert why(told.stream) == f"{needs}type trackside.trial-cloned.v1 at 3/{offset}"
    told = Told()
    assert told.tell(received(rules=RULES + 1)) == [PARKED]
    assert told.stream.parked is not None
    assert why(told.stream) == f"{needs}rules {RULES + 1} at 3/0"


def test_nothing_but_commands_counts_in_a_parked_stream() -> None:
    told, _ = parked()
    assert react(told.stream, CAPABILITIES, AGGREGATES) == []
    before, commands = dump(told.stream), len(told.stream.commands)
    assert told.each(suggested(3), received(5)) == [PARKED, APPLIED]
    assert (len(told.stream.commands), told.stream.root) == (commands + 1, load(before, AGGREGATES).root)
    assert told.tell(received(), stream="digits-2") == [APPLIED], "other streams of the partition go on"
    assert told.streams.by_id["digits-2"].parked is None


def test_what_was_written_since_is_folded_and_passed_on_once_the_record_is_skipped() -> None:
    told, offset = parked()
    clean = search_running()
    for number in (0, 7, 1):
        told.tell(suggested(number))
        clean.tell(suggested(number))
    assert told.tell(skip(offset + 1)) == told.tell(skip(offset, partition=4)) == [OVERTAKEN]
    assert told.stream.parked is not None
    passed: list[tuple[int, Outcome]] = []
    skipping = record_of(skip(offset), told.next_offset)
    folded = fold_on(
        told.streams, skipping, told.records, lambda _, outcome, each: passed.append((each.offset, outcome))
    )
    assert folded is APPLIED and not told.stream.waits
    assert [each.reason for each in told.stream.skipped] == ["a test wrote it"]
    assert numbers(told) == numbers(clean) == [0, 1]
    assert passed == [(offset + 1, APPLIED), (offset + 2, OVERTAKEN), (offset + 3, APPLIED)]


def test_a_released_stream_waits_until_it_was_read_again_to_where_all_others_are() -> None:
    told, offset = parked()
    told.tell(suggested(0))
    asked(told, SkipRecord(partition=3, offset=offset, reason="an accident"))
    skipping = record_of(skip(offset), told.next_offset)
    streams = told.streams
    assert streams.fold(skipping)[1] is APPLIED
    assert (list(streams.released), numbers(told)) == ([STREAM], [])
    later = [record_of(each, skipping.offset + at) for at, each in enumerate((suggested(1), received(8)), 1)]
    assert [streams.fold(each)[1] for each in later] == [PARKED, PARKED], "it has no effect yet"
    assert streams.fold(record_of(received(), later[-1].offset + 1, stream="digits-2"))[1] is APPLIED
    assert react(told.stream, CAPABILITIES, AGGREGATES) == []
    assert (load(pack(told.stream), AGGREGATES)) == told.stream, "a snapshot says how far it was read"

    released = told.stream.released
    assert released is not None
    again = [each for each in told.records if each.offset > offset]
    assert [streams.fold_again(each)[1] for each in again] == [APPLIED, PARKED]
    assert streams.have_read_again({STREAM: released}, skipping.offset) == []
    assert [streams.fold_again(each)[1] for each in (skipping, *later)] == [PARKED, APPLIED, APPLIED]
    assert streams.have_read_again({STREAM: released}, streams.positions[3]) == [told.stream]
    assert (numbers(told), "c-8" in told.stream.commands) == ([0, 1], True)


def test_a_parked_stream_keeps_nothing_of_what_comes() -> None:
    told, _ = parked()
    told.tell(suggested(0))
    size = len(pack(told.stream))
    for number in range(1, 300):
        told.tell(suggested(number))
    assert len(pack(told.stream)) == size


def test_the_rest_of_a_decision_with_a_skipped_record_has_no_effect() -> None:
    told = search_running()
    told.tell(NEW, suggested(0), role="dispatcher")
    offset = told.next_offset - 2
    told.each(suggested(0), skip(offset))
    assert (numbers(told), told.stream.root.trials[0].suggested_at) == ([0], offset + 2)


def test_a_second_unknown_event_parks_the_stream_again() -> None:
    told, offset = parked()
    told.tell(suggested(0))
    told.tell(NEW, role="scheduler")
    told.tell(suggested(1))
    assert told.tell(skip(offset)) == [APPLIED]
    assert told.stream.parked is not None
    assert told.stream.parked.offset == offset + 2
    assert told.each(skip(offset), skip(offset + 2)) == [OVERTAKEN, APPLIED]
    assert numbers(told) == [0, 1]


def test_a_snapshot_at_any_moment_changes_nothing() -> None:
    told, offset = parked()
    told.tell(suggested(0))
    told.tell(received(9), accepted(9))
    told.each(suggested(1), skip(offset), suggested(2))
    for cut in range(len(told.records) + 1):
        streams = Streams(AGGREGATES)
        for at, record in enumerate(told.records):
            if at == cut and STREAM in streams.by_id:
                streams = Streams(AGGREGATES, {STREAM: load(pack(streams.by_id[STREAM]), AGGREGATES)})
            assert fold_on(streams, record, told.records) is told.outcomes[at]
        assert dump(streams.by_id[STREAM]) == dump(told.stream)


def test_an_unknown_event_of_no_role_parks_nothing_nor_one_in_the_partition_of_another_stream() -> None:
    for role in ("nobody", "publisher", "operator"):
        told = search_running()
        assert told.fold(record_of(NEW, 0, role)) is OVERTAKEN
        assert told.stream.parked is None
    told, known = search_running(), Streams(AGGREGATES)
    streams = Streams(AGGREGATES, partitions=12)
    places = [replace(record, partition=at) for record in told.records for at in (0, 3, 7)]
    assert len({record.partition for record in places if streams.fold(record)[1] is APPLIED}) <= 1
    for record in told.records:
        known.fold(record)
    assert known.fold(replace(told.records[0], partition=5, offset=9))[1] is OVERTAKEN


def test_the_command_to_skip_a_record_repairs_its_stream_and_may_come_again() -> None:
    told, offset = parked()
    told.tell(suggested(0))
    command = SkipRecord(partition=3, offset=offset, reason="an accident")
    events = asked(told, command)
    assert [type(event) for event in events] == [CommandAccepted, RecordSkipped]
    assert (told.tell(*events), numbers(told)) == ([APPLIED, APPLIED], [0])
    assert told.stream.skipped[0].command_id == "c-skip"
    again = asked(told, command.model_copy(update={"reason": "again"}), "c-again")
    assert [type(event) for event in again] == [CommandAccepted]


@pytest.mark.parametrize("parks", [True, False])
def test_a_record_that_has_not_parked_the_stream_is_not_skipped(parks: bool) -> None:
    told = parked()[0] if parks else search_running()
    (refused,) = asked(told, SkipRecord(partition=3, offset=0, reason="looks odd"))
    assert isinstance(refused, CommandRefused)
    assert (refused.code, refused.path) == ("not_parked", "$.offset")
    assert "the record at 3/0 has not parked stream digits-1" in refused.message


def test_other_commands_for_a_parked_stream_are_refused_with_what_to_do() -> None:
    told, offset = parked()
    told.tell(received(4))
    (proposal,) = react(told.stream, CAPABILITIES, AGGREGATES)
    (refused,) = proposal.events
    assert isinstance(refused, CommandRefused)
    assert refused.code == "stream_parked"
    assert f"`trackside repair 3/{offset} --skip --reason TEXT`" in refused.message
