"""Whatever arrives is read, refused or a dead letter: nothing else comes out of reading a command.

By hypothesis, which makes small what fails; and by chance, on commands that are almost right.
"""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.commands import command_of
from tests.contract.malformed_commands import CONTENT_TYPES, ODD_VALUES, TYPES, VALID_BODIES, draw_malformed
from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.ids import is_identifier
from trackside.contracts.envelope.message import Command
from trackside.contracts.envelope.redaction import looks_secret
from trackside.contracts.envelope.refusals import DEAD_LETTER_CODES, REFUSAL_CODES, Problem
from trackside.contracts.envelope.topics import MAX_RECORD_BYTES
from trackside.contracts.streams.commands import RULES, CommandReceived, Source
from trackside.contracts.wire.codec import Draft, UndecodableError, encode
from trackside.contracts.wire.ingress import Arrival, read_command

pytestmark = pytest.mark.thorough

DRAWN_BY_CHANCE = 2_000
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(ODD_VALUES),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=20,
)
ATTRIBUTES = ("ce_id", "ce_type", "ce_source", "ce_partitionkey", "ce_time", "traceparent", "content-type")
OCTETS = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([*(name.encode() for name in TYPES), b"c-1", b"digits-1", *CONTENT_TYPES]),
)
STOP_SEARCH = {"ce_id": b"c-1", "ce_type": b"trackside.stop-search.v1", "ce_partitionkey": b"s-1"}
HEADERS = st.dictionaries(st.sampled_from(ATTRIBUTES) | st.text(max_size=10), OCTETS, max_size=8)


def _kept(arrival: Arrival) -> None:
    """What the log would hold of it can be written, read back, and is within its limits."""
    source = Source(topic="trackside.commands", partition=0, offset=1)
    said = ("command_type", "body", "digest", "publisher", "problem")
    kept: Any = {name: getattr(arrival, name) for name in said}
    command_id = arrival.command_id or "trackside.commands-0-1"
    event = CommandReceived(command_id=command_id, source=source, rules=RULES, **kept)
    draft = Draft(event, "m-1", "trackside/dispatcher/1", arrival.stream or "s", "2026-01-31T12:00:00.123Z")
    key, value, headers = encode(draft)
    assert CODEC.decode(CODEC.envelope(headers), value) == event
    assert all("\0" not in text for text in _texts_of(json.loads(value)))
    assert len(key) + len(value) + sum(len(octets) for _, octets in headers) < MAX_RECORD_BYTES


def _texts_of(value: Any) -> Iterator[str]:
    """Every text and key in a JSON value: one may hold the six characters \\u0000, which aren't a NUL."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts_of(inner)


def judged(headers: dict[str, bytes], key: bytes | None, value: bytes | None) -> str:
    """Reads a record as the dispatcher does and says what became of it: a code, or `read`."""
    try:
        arrival = read_command(headers, key, value)
    except UndecodableError as error:
        return next(code for code in DEAD_LETTER_CODES if code == error.code)  # it is in the reference
    assert arrival.command_id == "" or is_identifier(arrival.command_id)
    assert arrival.stream == "" or is_identifier(arrival.stream)
    assert (arrival.body is None) == (arrival.problem is not None)
    assert not looks_secret(repr(arrival))
    _kept(arrival)
    if arrival.problem is not None:
        assert arrival.problem.code in REFUSAL_CODES
        return arrival.problem.code
    assert arrival.command_id and arrival.stream and arrival.body is not None
    return _obeyed(arrival.command_type, arrival.body)


def _obeyed(wire_type: str, body: dict[str, Any]) -> str:
    found = command_of(wire_type, body)
    if isinstance(found, Problem):
        assert found.code in REFUSAL_CODES or found.code.endswith("_range"), found
        assert found.path.startswith("$") and found.message
        assert len(found.model_dump_json()) < 20_000, "a refusal is no place to repeat what was sent"
        return found.code
    assert isinstance(found, Command)
    assert command_of(wire_type, json.loads(found.model_dump_json())) == found
    return "read"


@settings(max_examples=700, deadline=None)
@given(HEADERS, st.none() | OCTETS, st.none() | st.binary(max_size=300))
@example({}, None, b"{}")
@example({"content-type": b"application/cloudevents"}, b"\xff", b'{"data":{}}')
def test_any_bytes_and_headers_come_to_a_known_end(
    headers: dict[str, bytes], key: bytes | None, value: bytes | None
) -> None:
    judged(headers, key, value)


@settings(max_examples=700, deadline=None)
@given(HEADERS, st.none() | OCTETS, ANYTHING)
@example(STOP_SEARCH, None, {"reason": "backslash, \\u0000"})
@example(STOP_SEARCH, None, {"reason": {"\\u0000": None}})
def test_any_json_comes_to_a_known_end(headers: dict[str, bytes], key: bytes | None, value: Any) -> None:
    judged(headers, key, json.dumps(value).encode())


@settings(max_examples=700, deadline=None)
@given(st.sampled_from([wire_type for wire_type in TYPES if VALID_BODIES[wire_type]]), st.data())
def test_any_value_in_any_field_of_a_command_has_a_known_end(wire_type: str, data: st.DataObject) -> None:
    body = json.loads(json.dumps(VALID_BODIES[wire_type]))
    place = body
    while True:
        names = sorted(place) if isinstance(place, dict) else range(len(place))
        name = data.draw(st.sampled_from(names))
        if not isinstance(place[name], dict | list) or not place[name] or data.draw(st.booleans()):
            break
        place = place[name]
    place[name] = data.draw(ANYTHING)
    headers = {"ce_id": b"c-1", "ce_type": wire_type.encode(), "ce_partitionkey": b"s-1"}
    judged(headers, None, json.dumps(body).encode())


def test_commands_that_are_almost_right_come_to_every_kind_of_end(seed: int) -> None:
    chance = Random(seed)
    ends: dict[str, int] = {}
    for _ in range(DRAWN_BY_CHANCE):
        record = draw_malformed(chance, lambda: f"s-{chance.randrange(100)}")
        headers = {name.lower(): octets for name, octets in record.headers if octets is not None}
        end = judged(headers, record.key, record.value)
        ends[end] = ends.get(end, 0) + 1
    assert ends["read"] > DRAWN_BY_CHANCE / 10, ends
    assert len(ends) > 15, ends
