"""Commands on their way into their streams: none is lost, none goes in twice, bytes leave a reason."""

import base64
import hashlib

from tests.unit.domain.given import FIRST_MS, record_of
from tests.unit.domain.test_forgetting import decided, ended_search, forget
from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import RULES, CommandReceived, Source
from trackside.dispatcher.intake.intake import Intake, next_commands
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.forgetting import FORGET
from trackside.eventlog.keys.dead_letters import HEAD_BYTES
from trackside.eventlog.log import Entry

TOPIC = Topics().commands.name


def entry(
    offset: int, value: bytes | None = b"{}", key: bytes | None = b"digits-1", **changed: bytes | None
) -> Entry:
    headers: dict[str, bytes | None] = {"ce_id": f"c-{offset}".encode(), "ce_source": b"https://example.org"}
    headers |= {"ce_type": b"trackside.stop-search.v1", **changed}
    return Entry(TOPIC, 1, offset, FIRST_MS, key, value, list(headers.items()))


def took(*entries: Entry) -> Intake:
    intake = Intake()
    for found in entries:
        intake.receive(found)
    return intake


def folded(streams: Streams, *waiting: tuple[str, CommandReceived, str]) -> list[Outcome]:
    waits = enumerate(waiting, sum(streams.positions.values()))
    return [streams.fold(record_of(event, at, stream=stream))[1] for at, (stream, event, _) in waits]


def test_a_command_waits_until_it_is_in_its_stream_not_for_one_of_a_parent_at_the_same_place() -> None:
    intake, streams = took(entry(5)), Streams(AGGREGATES)
    ((_, event, _),) = intake.unrecorded(streams)
    of_parent = Source(topic=Topics().events.name, partition=1, offset=5)
    intake.recorded(event.model_copy(update={"source": of_parent}))
    assert len(intake) == 1
    intake, streams = took(entry(5)), Streams(AGGREGATES)
    ((stream, event, _),) = intake.unrecorded(streams)
    assert stream == "digits-1"
    assert (event.command_id, event.command_type, event.body) == ("c-5", "trackside.stop-search.v1", {})
    assert (event.source, event.rules) == (Source(topic=TOPIC, partition=1, offset=5), RULES)
    assert len(intake.unrecorded(streams)) == 1
    intake.recorded(event)
    assert (intake.unrecorded(streams), len(intake)) == ([], 0)


def test_commands_wait_in_the_order_in_which_they_came_and_a_trace_goes_on_behind_its_command() -> None:
    intake = took(*(entry(offset, ce_partitionkey=f"s-{offset}".encode(), key=None) for offset in (3, 4, 5)))
    assert [stream for stream, _, _ in intake.unrecorded(Streams(AGGREGATES))] == ["s-3", "s-4", "s-5"]
    traceparent = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    ((_, _, found),) = took(entry(5, traceparent=traceparent.encode())).unrecorded(Streams(AGGREGATES))
    assert found == traceparent


def test_what_is_read_again_does_not_go_in_twice_but_what_is_published_twice_does() -> None:
    streams = Streams(AGGREGATES)
    assert folded(streams, *took(entry(5)).unrecorded(streams)) == [Outcome.APPLIED]
    again = took(entry(5), entry(6))
    assert [event.command_id for _, event, _ in again.unrecorded(streams)] == ["c-6"]
    assert len(again) == 1
    streams = Streams(AGGREGATES)
    intake = took(entry(5), entry(6, ce_id=b"c-5"))
    assert folded(streams, *intake.unrecorded(streams)) == [Outcome.APPLIED, Outcome.APPLIED]
    assert len(streams.by_id["digits-1"].commands["c-5"].publications) == 2
    assert intake.unrecorded(streams) == []


def test_a_command_without_a_usable_stream_is_answered_on_its_own() -> None:
    for found, stream, command_id in (
        (entry(5, key=b"a b"), "c-5", "c-5"),
        (entry(5, key=None), "c-5", "c-5"),
        (entry(5, key=None, ce_id=None), f"commands/{TOPIC}-1-5", f"{TOPIC}-1-5"),
        (entry(5, key=b"a b", ce_id=b"../x"), f"commands/{TOPIC}-1-5", f"{TOPIC}-1-5"),
        (entry(5, ce_id=None), "digits-1", f"{TOPIC}-1-5"),
    ):
        ((where, event, _),) = took(found).unrecorded(Streams(AGGREGATES))
        assert (where, event.command_id) == (stream, command_id)


def test_bytes_that_hold_no_object_are_dead_letters_and_an_unfit_body_goes_in_without_it() -> None:
    value = b"\xff" * 10_000
    intake = took(entry(5, value), entry(6, None), entry(7, b"[]"), entry(8))
    assert [letter.code for letter in intake.dead_letters] == ["not_utf8", "empty_payload", "not_object"]
    letter = intake.dead_letters[0]
    assert letter.source == Source(topic=TOPIC, partition=1, offset=5)
    assert (letter.reader, letter.sha256) == ("dispatcher", hashlib.sha256(value).hexdigest())
    assert base64.b64decode(letter.head_base64) == value[:HEAD_BYTES]
    assert len(intake) == 1
    ((_, event, _),) = took(entry(5, b'{"reason":"\\u0000"}')).unrecorded(Streams(AGGREGATES))
    assert event.body is None
    assert event.problem is not None and event.problem.code == "nul_character"


def test_a_refusal_for_a_secret_says_where_it_is_and_to_rotate_it_and_no_dead_letter_keeps_one() -> None:
    ((_, event, _),) = took(entry(5, b'{"reason":{"db_password":"hunter2"}}')).unrecorded(Streams(AGGREGATES))
    assert event.problem is not None
    assert (event.problem.code, event.problem.path) == ("secret_suspected", "$.reason.db_password")
    assert event.problem.message.endswith(
        "rotate it: it can be read in trackside.commands, partition 1, offset 5, until the retention of the "
        "topic removes it"
    )
    assert "hunter2" not in event.model_dump_json()
    bodies = (b'{"db_password": "hunter2", nope}', b"PASSWORD: hunter2", b"nope")
    intake = took(*(entry(5 + at, body) for at, body in enumerate(bodies)))
    assert [bool(letter.head_base64) for letter in intake.dead_letters] == [False, False, True]


def known(*offsets: int, partition: int = 1) -> Streams:
    streams = Streams(AGGREGATES)
    for offset in offsets:
        found = entry(offset, ce_partitionkey=f"s-{offset}".encode(), key=None)
        found.partition = partition
        folded(streams, *took(found).unrecorded(streams))
    return streams


def test_reading_goes_on_behind_what_is_in_streams_by_partition_but_not_behind_what_is_overtaken() -> None:
    starts = {(TOPIC, 0): 0, (TOPIC, 1): 3}
    assert next_commands(known(3, 4, 5), starts) == {(TOPIC, 0): 0, (TOPIC, 1): 6}
    assert next_commands(Streams(AGGREGATES), starts) == starts
    assert next_commands(known(1, 2), starts) == starts, "what is no longer kept says nothing"
    starts = {(TOPIC, 0): 0, (TOPIC, 1): 0}
    assert next_commands(known(0, 1, partition=0), starts) == {(TOPIC, 0): 2, (TOPIC, 1): 0}
    streams = known(3, 5, 6)
    assert next_commands(streams, {(TOPIC, 1): 3}) == {(TOPIC, 1): 4}
    again = took(*(entry(n, ce_partitionkey=f"s-{n}".encode(), key=None) for n in (4, 5, 6)))
    assert [event.source.offset for _, event, _ in again.unrecorded(streams)] == [4]


def test_a_command_for_a_forgotten_stream_is_received_without_its_content_unless_it_asks_for_that() -> None:
    told = ended_search()
    forget(told)
    told.tell(*decided(told))
    for wire_type, body in ((b"trackside.stop-search.v1", None), (FORGET.encode(), {"reason": "canary"})):
        intake = took(entry(50, b'{"reason": "canary"}', ce_type=wire_type))
        ((stream, event, _),) = intake.unrecorded(told.streams)
        assert (stream, event.body) == (told.stream.stream_id, body)
        if body is None:
            assert event.problem is not None and event.problem.code == "stream_forgotten"
            assert "canary" not in event.model_dump_json() and event.publisher == ""
        intake.recorded(event)
        assert (intake.unrecorded(told.streams), len(intake)) == ([], 0)
