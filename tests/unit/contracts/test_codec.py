import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trackside.aggregates import documents
from trackside.aggregates.registry import CODEC
from trackside.aggregates.search.messages import SearchExhausted
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.envelope.parts import Part
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.contracts.wire import codec
from trackside.contracts.wire.codec import Codec, Draft, UndecodableError, UnknownMessageError, encode

DRAFT = Draft(SearchExhausted(trials=3), id="m-1", source="trackside/dispatcher/1", stream="s-1", time="t")


ODD: dict[type, tuple[Any, ...]] = {
    str: ("é\U0001f600\n\\u0000", "x" * 300),
    int: (0, -1, 2**53, 10**6),
    float: (0.1, -0.0, 5e-324, 1.7976931348623157e308),
    bool: (True, False),
    type(None): (),
}
ANY_JSON = ([1, {"a": None}], {"": [True, 0.5]}, None)


def changed(value: Any) -> Iterator[Any]:
    """Yields a JSON value with another value in one of its places, or without one of its fields."""
    if isinstance(value, dict):
        yield from ({other: value[other] for other in value if other != name} for name in value)
        for name, inner in value.items():
            yield from ({**value, name: each} for each in changed(inner))
    elif isinstance(value, list):
        yield []
        for at, inner in enumerate(value):
            yield from ([*value[:at], each, *value[at + 1 :]] for each in changed(inner))
    yield from (*ODD.get(type(value), ()), *ANY_JSON)


@pytest.mark.thorough
def test_every_message_comes_back_as_it_was_written(seed: int) -> None:
    random, read = Random(seed), Counter[str]()
    for wire_type, example in documents.examples().items():
        others = list(changed(json.loads(example.model_dump_json())))
        for body in random.sample(others, min(60, len(others))):
            with suppress(ValidationError):
                message = type(example).model_validate_json(json.dumps(body))
                _, value, headers = encode(Draft(message, "m-1", "trackside/worker/1", "s-1", "t"))
                random.shuffle(headers := list(headers))
                assert CODEC.decode(CODEC.envelope(headers), value) == message
                read[wire_type] += 1
    assert read.total() > 1_000


def test_every_attribute_of_a_draft_is_in_the_envelope() -> None:
    place: Any = {
        "stream": "s-1",
        "decision_id": "d-1",
        "index": 2,
        "count": 3,
        "time": "2026-01-01T00:00:00Z",
    }
    ids: Any = {"id": "m-1", "subject": "7", "causation_id": "m-0", "correlation_id": "s-1"}
    traceparent = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    message, source = SearchExhausted(trials=3, seen=7), "trackside/dispatcher/2"
    draft = Draft(message, source=source, traceparent=traceparent, **place, **ids)
    key, value, headers = encode(draft)
    envelope = CODEC.envelope(headers)
    assert (key, value) == (b"s-1", b'{"trials":3,"seen":7}')
    assert (envelope.id, envelope.type, envelope.source) == ("m-1", SearchExhausted.wire_type(), draft.source)
    assert (envelope.role, envelope.stream, envelope.time) == ("dispatcher", "s-1", draft.time)
    assert (envelope.causation_id, envelope.traceparent) == ("m-0", draft.traceparent)
    assert (envelope.decision_id, envelope.index) == (b"d-1", 2)
    said = dict(headers)
    assert (said["ce_specversion"], said["ce_subject"], said["ce_count"]) == (b"1.0", b"7", b"3")
    alone = dict(encode(DRAFT)[2])
    assert not {"ce_decisionid", "ce_index", "ce_count", "ce_subject", "traceparent"} & alone.keys()


@pytest.mark.parametrize(
    "extra",
    [
        [("ce_dataschema", b"x"), ("ce_myextension", b"y")],
        [("content-type", b"text/plain"), ("content-type", b"application/json")],
        [("CE_Subject", b"in capitals")],
        [("ce_subject", None), ("kafka_correlation", b"\xff")],
    ],
    ids=["extensions", "doubled content-type", "capitals", "no bytes"],
)
def test_headers_and_fields_of_no_use_are_passed_over(extra: list[tuple[str, bytes | None]]) -> None:
    _, value, headers = encode(DRAFT)
    fewer = [header for header in headers if header[0] != "content-type"]
    for found in ([*extra, *headers], [*headers, *extra], fewer):
        assert CODEC.decode(CODEC.envelope(found), value) == DRAFT.message
    assert CODEC.decode(CODEC.envelope(headers), b'{"trials":3,"since":"2.0"}') == DRAFT.message


def test_only_our_own_services_have_a_role() -> None:
    others = ("trackside/worker", "trackside/worker/1/2", "https://example.org/x", "elsewhere/worker/1", "")
    assert CODEC.envelope([("ce_source", b"trackside/worker/1")]).role == "worker"
    assert {CODEC.envelope([("ce_source", source.encode())]).role for source in others} == {""}


@pytest.mark.parametrize(
    ("wire", "value", "code"),
    [
        (b"trackside.search-exhausted.v1", None, "tombstone"),
        (b"trackside.search-exhausted.v1", b"", "not_valid"),
        (b"trackside.search-exhausted.v1", b"\xff", "not_valid"),
        (b"trackside.search-exhausted.v1", b"[]", "not_valid"),
        (b"trackside.search-exhausted.v1", b'{"trials":"many"}', "not_valid"),
        (b"trackside.search-exhausted.v2", b'{"trials":3}', "unknown_type"),
        (b"trackside.nothing-happened.v1", b"{}", "unknown_type"),
        (b"\xff", b"{}", "unknown_type"),
        (b"", b"{}", "unknown_type"),
    ],
)
def test_what_cannot_be_decoded_is_named_by_a_code(wire: bytes, value: bytes | None, code: str) -> None:
    with pytest.raises(UndecodableError) as caught:
        CODEC.decode(CODEC.envelope([("ce_type", wire)]), value)
    assert caught.value.code == code
    assert isinstance(caught.value, UnknownMessageError) is (code == "unknown_type")


@given(st.dictionaries(st.sampled_from(["ce_type", "ce_index", "ce_source"]), st.binary()), st.binary())
def test_decoding_raises_nothing_but_undecodable(headers: dict[str, bytes], value: bytes) -> None:
    envelope = CODEC.envelope(headers.items())
    assert isinstance(envelope.index, int)
    with pytest.raises(UndecodableError):
        CODEC.decode(envelope, value)


class LampLit(Event):
    """A lamp that was lit: version 1 said `bright`, version 2 `watts`, version 3 has a colour too."""

    wire_version: ClassVar[int] = 3
    watts: int
    colour: str


def _to_second(body: Json) -> Json:
    return {"watts": 60 if body["bright"] else 25}


def _to_third(body: Json) -> Json:
    return {**body, "colour": "white"}


LIFTS = {"trackside.lamp-lit.v1": _to_second, "trackside.lamp-lit.v2": _to_third}


def test_an_older_version_is_lifted_step_by_step_to_the_current_one() -> None:
    lamps = Codec([LampLit], LIFTS)
    bodies = (b'{"bright":true}', b'{"watts":60}', b'{"watts":60,"colour":"white"}')
    for version, value in enumerate(bodies, 1):
        envelope = lamps.envelope([("ce_type", b"trackside.lamp-lit.v%d" % version)])
        assert lamps.decode(envelope, value) == LampLit(watts=60, colour="white")


def test_an_older_version_that_cannot_be_lifted_or_has_a_bad_body_is_undecodable() -> None:
    lamps = Codec([LampLit], {"trackside.lamp-lit.v1": _to_second})
    for wire, value in ((b"trackside.lamp-lit.v1", b'{"bright":true}'), (b"trackside.lamp-lit.v0", b"{}")):
        with pytest.raises(UnknownMessageError):
            lamps.decode(lamps.envelope([("ce_type", wire)]), value)
    lamps = Codec([LampLit], LIFTS)
    for value in (b"{}", b"[]", b"3", b"{", b'{"watts":NaN}', b"\xff", b"[" * 5000):
        for version in (1, 2):
            with pytest.raises(UndecodableError):
                lamps.decode(lamps.envelope([("ce_type", b"trackside.lamp-lit.v%d" % version)]), value)


@pytest.mark.parametrize(
    ("of_version_1", "part"),
    [
        ({"trial": 0, "group": None, "name": ""}, Part(kind="trial", number=0)),
        ({"trial": 3}, Part(kind="trial", number=3)),
        ({"trial": None, "group": 0, "name": "small"}, Part(kind="group", number=0, name="small")),
        ({"trial": None, "group": None, "name": ""}, None),
        ({}, None),
    ],
)
def test_the_trial_or_group_of_a_task_of_version_1_is_its_part(of_version_1: Json, part: Part | None) -> None:
    body = {"task_id": "s.0", "task_type": "digits", "parameters": {"name": "x"}, **of_version_1}
    envelope = CODEC.envelope([("ce_type", b"trackside.task-submitted.v1")])
    expected = TaskSubmitted(task_id="s.0", task_type="digits", parameters={"name": "x"}, part=part)
    assert CODEC.decode(envelope, json.dumps(body).encode()) == expected


def test_every_event_but_a_dead_letter_says_who_may_write_it() -> None:
    roles = {"dispatcher", "scheduler", "setup", "summary-indexer", "worker"}
    for kind in (*documents.events(), *codec.FLEET_EVENTS, *codec.HEARTBEATS, *codec.METRICS, *codec.LOGS):
        assert kind.written_by
        assert kind.written_by <= roles
