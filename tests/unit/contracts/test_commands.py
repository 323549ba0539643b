"""What is wrong with a command's body is said by code and path; the codes are for programs to act upon."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.commands import command_of
from trackside.aggregates.search.messages import StartSearch, StopSearch
from trackside.contracts.codec import UndecodableError
from trackside.contracts.ingress import Arrival, read_command
from trackside.contracts.message import Command
from trackside.contracts.refusals import REFUSAL_CODES, Problem

START, STOP = StartSearch.wire_type(), StopSearch.wire_type()
SPEC: dict[str, Any] = {
    "task_type": "digits",
    "space": {"lr": {"type": "loguniform", "low": 0.001, "high": 0.1}},
    "max_trials": 20,
}
K = {"type": "constant", "value": 1}


def refused(wire_type: str, body: dict[str, Any]) -> Problem:
    found = command_of(wire_type, body)
    assert isinstance(found, Problem), found
    assert found.code in REFUSAL_CODES or found.code.endswith("_range")
    return found


def start(**changed: Any) -> Problem:
    body = {name: value for name, value in {**SPEC, **changed}.items() if value is not None}
    return refused(START, body)


def test_a_good_command_is_read() -> None:
    assert command_of(START, SPEC) == StartSearch.model_validate_json(json.dumps(SPEC))
    assert command_of(STOP, {}) == StopSearch(reason="")


@pytest.mark.parametrize(
    ("changed", "code", "path"),
    [
        pytest.param({"max_trails": 3}, "unknown_field", "$.max_trails", id="BI-7"),
        pytest.param({"retry": {"lots": 3}}, "unknown_field", "$.retry.lots", id="BI-7 within"),
        pytest.param({"task_type": None}, "missing_field", "$.task_type", id="BI-8"),
        pytest.param(
            {"space": {"lr": {"type": "uniform", "low": 0}}},
            "missing_field",
            "$.space.lr.high",
            id="BI-8 within",
        ),
        pytest.param(
            {"space": {"lr": {"low": 0, "high": 1}}},
            "unknown_value",
            "$.space.lr",
            id="BI-8 type of a parameter",
        ),
        pytest.param({"max_trials": "20"}, "wrong_type", "$.max_trials", id="BI-9"),
        pytest.param({"max_trials": 2.5}, "wrong_type", "$.max_trials", id="BI-9 not whole"),
        pytest.param({"max_trials": True}, "wrong_type", "$.max_trials", id="BI-9 boolean"),
        pytest.param({"name": 7}, "wrong_type", "$.name", id="BI-9 number for text"),
        pytest.param({"space": []}, "wrong_type", "$.space", id="BI-9 list for object"),
        pytest.param({"space": {"lr": 3}}, "wrong_type", "$.space.lr", id="BI-9 number for parameter"),
        pytest.param({"task_type": ""}, "bad_length", "$.task_type", id="BI-16 empty"),
        pytest.param({"name": "x" * 201}, "bad_length", "$.name", id="BI-16 name"),
        pytest.param({"space": {}}, "bad_length", "$.space", id="BI-35 empty space"),
        pytest.param({"queue": "a b"}, "bad_identifier", "$.queue", id="BI-20 queue"),
        pytest.param({"queue": "a\n"}, "bad_identifier", "$.queue", id="BI-20 line break"),
        pytest.param({"direction": "up"}, "unknown_value", "$.direction", id="unknown direction"),
        pytest.param({"max_trials": 0}, "max_trials_range", "$.max_trials", id="no trials"),
        pytest.param({"concurrency": 0}, "concurrency_range", "$.concurrency", id="BI-36 none"),
        pytest.param({"concurrency": 10_001}, "concurrency_range", "$.concurrency", id="BI-36 many"),
        pytest.param({"seed": -1}, "seed_range", "$.seed", id="seed"),
        pytest.param({"retry": {"lost": 101}}, "lost_range", "$.retry.lost", id="retries"),
    ],
)
def test_a_bad_search_is_refused_at_its_path(changed: dict[str, Any], code: str, path: str) -> None:
    found = start(**changed)
    assert (found.code, found.path) == (code, path)


@pytest.mark.parametrize(
    ("parameter", "code", "within"),
    [
        ({"type": "uniform", "low": 2, "high": 1}, "bad_search_space", ""),
        ({"type": "loguniform", "low": 2.0, "high": 1.0}, "bad_search_space", ""),
        ({"type": "loguniform", "low": 0, "high": 1}, "bad_search_space", ""),
        ({"type": "loguniform", "low": -1, "high": 1}, "bad_search_space", ""),
        ({"type": "quniform", "low": 0, "high": 1, "step": 0}, "bad_search_space", ""),
        ({"type": "quniform", "low": 0, "high": 1, "step": -1}, "bad_search_space", ""),
        ({"type": "quniform", "low": 3, "high": 1, "step": 1}, "bad_search_space", ""),
        ({"type": "randint", "low": 3, "high": 3}, "bad_search_space", ""),
        ({"type": "uniform", "low": -1e308, "high": 1e308}, "bad_search_space", ""),
        ({"type": "quniform", "low": 0, "high": 1e300, "step": 1e-300}, "bad_search_space", ""),
        ({"type": "choice", "values": []}, "bad_search_space", ""),
        ({"type": "choice", "values": {"a": 1}}, "wrong_type", ".values"),
        ({"type": "choice"}, "missing_field", ".values"),
        ({"type": "randint", "low": 0.5, "high": 3}, "wrong_type", ".low"),
        ({"type": "randint", "low": 0, "high": 2**60}, "high_range", ".high"),
        ({"type": "uniform", "low": "0", "high": 1}, "wrong_type", ".low"),
        ({"type": "uniform", "low": 0, "high": 1, "step": 1}, "unknown_field", ".step"),
        ({"type": "gauss", "mean": 0}, "unknown_value", ""),
        ({"type": "normal", "mu": 0}, "missing_field", ".sigma"),
        ({"type": "normal", "mu": 0, "sigma": 0}, "bad_search_space", ""),
        ({"type": "normal", "mu": 0, "sigma": 1e308}, "bad_search_space", ""),
        ({"type": "lognormal", "mu": 700, "sigma": 1}, "bad_search_space", ""),
        ({"type": "qnormal", "mu": 0, "sigma": 1, "step": 0}, "bad_search_space", ""),
        ({"type": "qlognormal", "mu": 0, "sigma": 1, "step": -1}, "bad_search_space", ""),
        ({"type": "qloguniform", "low": 0, "high": 1, "step": 0.1}, "bad_search_space", ""),
        ({"type": "constant"}, "missing_field", ".value"),
        ({"_type": "uniform", "_value": [2, 1]}, "bad_search_space", ""),
        ({"_type": "uniform", "_value": [0, 1, 2]}, "bad_search_space", ""),
        ({"_type": "uniform", "_value": ["0", 1]}, "wrong_type", ""),
        ({"_type": "gauss", "_value": [0, 1]}, "bad_search_space", ""),
        ({"_type": "uniform", "low": 0}, "bad_search_space", ""),
        ({"_type": "choice", "_value": 1}, "wrong_type", "._value"),
        ({"_type": "choice", "_value": [{"k": {"_type": "choice", "_value": [1]}}]}, "bad_search_space", ""),
        (
            {"_type": "choice", "_value": [{"_name": "a", "k": {"_type": "uniform", "_value": [1, 0]}}]},
            "bad_search_space",
            "._value[0].k",
        ),
        (
            {"type": "choice", "values": [{"_name": "a", "k": K}, {"_name": "a", "k": K}]},
            "bad_search_space",
            "",
        ),
        ({"type": "choice", "values": [{"_name": "", "k": K}]}, "bad_length", ".values[0]._name"),
        (
            {"type": "choice", "values": [{"_name": "a", "choice": {"type": "uniform", "low": 2}}]},
            "missing_field",
            ".values[0].choice.high",
        ),
        ({"type": None}, "unknown_value", ""),
        ({"type": ["uniform"]}, "unknown_value", ""),
    ],
)
def test_a_bad_parameter_is_refused_at_its_path(parameter: dict[str, Any], code: str, within: str) -> None:
    found = start(space={"ok": {"type": "choice", "values": [1]}, "lr": parameter})
    assert (found.code, found.path) == (code, f"$.space.lr{within}")


def test_a_parameter_may_have_the_name_of_a_type() -> None:
    found = start(space={"loguniform": {"type": "loguniform", "low": 0, "high": 1}})
    assert (found.code, found.path) == ("bad_search_space", "$.space.loguniform")


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        ({"max_trails": 3}, "did you mean 'max_trials'?"),
        ({"concurency": 3}, "did you mean 'concurrency'?"),
        ({"retry": {"losst": 3}}, "did you mean 'lost'?"),
        ({"tuner": {"nam": "tpe"}}, "did you mean 'name'?"),
        ({"space": {"lr": {"type": "uniform", "low": 0, "high": 1, "hihg": 1}}}, "did you mean 'high'?"),
    ],
)
def test_an_unknown_field_comes_with_the_nearest_known_one(changed: dict[str, Any], hint: str) -> None:
    assert start(**changed).message.endswith(hint)


def test_an_unknown_field_that_is_like_no_other_comes_without_a_hint() -> None:
    assert start(zzzz=1).message == "unknown field 'zzzz'"


@pytest.mark.parametrize(
    ("wire_type", "code", "said"),
    [
        pytest.param("trackside.start-serach.v1", "unknown_command", "did you mean", id="BI-10 mistyped"),
        pytest.param("pause", "unknown_command", START, id="BI-10 lists what is known"),
        pytest.param("", "unknown_command", "known:", id="BI-10 empty"),
        pytest.param("trackside.search-ended.v1", "unknown_command", "known:", id="BI-10 an event"),
        pytest.param("trackside.run-task.v1", "unknown_command", "known:", id="BI-10 a device's command"),
        pytest.param("trackside.start-search.v3", "unknown_version", "version 3", id="BI-11"),
        pytest.param("trackside.start-search.v0", "unknown_version", "version 0", id="BI-12"),
        pytest.param("trackside.start-search.vx", "unknown_command", "known:", id="no version"),
    ],
)
def test_an_unknown_command_or_version_is_refused(wire_type: str, code: str, said: str) -> None:
    found = refused(wire_type, SPEC)
    assert (found.code, found.path) == (code, "$type")
    assert said in found.message


def test_a_message_is_short_whatever_the_input_was() -> None:
    for found in (start(name="x" * 60_000), start(direction="x" * 60_000), refused("x" * 60_000, {})):
        assert len(found.message) < 3_000


CHARACTERS = st.text(max_size=8)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | CHARACTERS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CHARACTERS, inner, max_size=3),
)
FIELDS = st.sampled_from([*StartSearch.model_fields, "type", "low", "high", "step", "values", "lost"])
NEARLY = st.recursive(
    ANYTHING | st.sampled_from(["uniform", "choice", "randint", "loguniform", "quniform", "tpe"]),
    lambda inner: st.dictionaries(FIELDS | CHARACTERS, inner, max_size=5),
)


@settings(max_examples=50)
@given(
    st.sampled_from([START, STOP, "trackside.start-search.v2"]) | CHARACTERS,
    st.dictionaries(FIELDS | CHARACTERS, NEARLY, max_size=6),
)
def test_reading_a_body_never_raises(wire_type: str, body: dict[str, Any]) -> None:
    assert isinstance(command_of(wire_type, body), Command | Problem)


ATTRIBUTES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.just("c-1") | ANYTHING,
        "type": st.just(START) | ANYTHING,
        "source": ANYTHING,
        "partitionkey": ANYTHING,
        "traceparent": ANYTHING,
        "data": NEARLY,
    },
)
VALUES = st.one_of(
    st.none(),
    st.binary(max_size=40),
    ANYTHING.map(lambda found: json.dumps(found).encode()),
    NEARLY.map(lambda found: json.dumps(found).encode()),
    ATTRIBUTES.map(lambda found: json.dumps(found).encode()),
)
HEADERS = st.dictionaries(
    st.sampled_from(["ce_id", "ce_type", "ce_source", "ce_partitionkey", "traceparent", "content-type"]),
    st.binary(max_size=12) | st.sampled_from([b"c-1", START.encode(), b"application/cloudevents+json"]),
)


@settings(max_examples=25)
@given(HEADERS, st.none() | st.binary(max_size=8), VALUES)
def test_whatever_arrives_is_read_or_undecodable(
    headers: dict[str, bytes], key: bytes | None, value: bytes | None
) -> None:
    with contextlib.suppress(UndecodableError):
        _is_sound(read_command(headers, key, value))


def _is_sound(arrival: Arrival) -> None:
    assert (arrival.body is None) == (arrival.problem is not None)
    _can_be_kept(arrival)
    if arrival.body is not None:
        assert isinstance(command_of(arrival.command_type, arrival.body), Command | Problem)


def _can_be_kept(arrival: Arrival) -> None:
    """Everything that goes on into the log and the read models is text that both can hold."""
    texts = [arrival.command_id, arrival.command_type, arrival.stream, arrival.publisher, arrival.traceparent]
    if arrival.problem is not None:
        texts += [arrival.problem.code, arrival.problem.path, arrival.problem.message]
    for text in texts:
        assert "\x00" not in text
        text.encode()


@pytest.mark.parametrize("levels", range(880, 1_000, 8))
def test_no_depth_is_too_much_for_the_reader(levels: int) -> None:
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    for value in (deep, b'{"id":' + deep + b',"data":{}}', b'{"id":"c","data":' + deep + b"}"):
        for content_type in (b"application/json", b"application/cloudevents+json"):
            found = read_command({"ce_id": b"c", "content-type": content_type}, None, value)
            assert found.problem is not None
