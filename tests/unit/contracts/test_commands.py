from typing import Any

import pytest

from tests.commands import command_of
from trackside.aggregates.search.messages import StartSearch
from trackside.contracts.envelope.refusals import REFUSAL_CODES, Problem
from trackside.contracts.wire.ingress import read_command

START = StartSearch.wire_type()
SPEC: dict[str, Any] = {"task_type": "digits", "max_trials": 20}
SPEC["space"] = {"lr": {"type": "loguniform", "low": 0.001, "high": 0.1}}
K = {"type": "constant", "value": 1}


def refused(wire_type: str, body: dict[str, Any]) -> Problem:
    found = command_of(wire_type, body)
    assert isinstance(found, Problem), found
    assert found.code in REFUSAL_CODES or found.code.endswith("_range")
    return found


def start(**changed: Any) -> Problem:
    return refused(START, {**SPEC, **changed})


@pytest.mark.parametrize(
    ("changed", "code", "path"),
    [
        ({"retry": {"lots": 3}}, "unknown_field", "$.retry.lots"),
        ({"space": {"lr": {"type": "uniform", "low": 0}}}, "missing_field", "$.space.lr.high"),
        ({"space": {"lr": {"low": 0, "high": 1}}}, "unknown_value", "$.space.lr"),
        ({"max_trials": 2.5}, "wrong_type", "$.max_trials"),
        ({"max_trials": True}, "wrong_type", "$.max_trials"),
        ({"name": 7}, "wrong_type", "$.name"),
        ({"space": []}, "wrong_type", "$.space"),
        ({"space": {"lr": 3}}, "wrong_type", "$.space.lr"),
        ({"task_type": ""}, "bad_length", "$.task_type"),
        ({"name": "x" * 201}, "bad_length", "$.name"),
        ({"queue": "a b"}, "bad_identifier", "$.queue"),
        ({"queue": "a\n"}, "bad_identifier", "$.queue"),
        ({"direction": "up"}, "unknown_value", "$.direction"),
        ({"max_trials": 0}, "max_trials_range", "$.max_trials"),
        ({"seed": -1}, "seed_range", "$.seed"),
        ({"retry": {"lost": 101}}, "lost_range", "$.retry.lost"),
    ],
    ids=str,
)
def test_a_bad_search_is_refused_at_its_path(changed: dict[str, Any], code: str, path: str) -> None:
    found = start(**changed)
    assert (found.code, found.path) == (code, path)


CHOICES = {"type": "choice"}
NO_SUCH_SPACE: list[dict[str, Any]] = [
    {"type": "loguniform", "low": 2.0, "high": 1.0},
    {"type": "loguniform", "low": 0, "high": 1},
    {"type": "loguniform", "low": -1, "high": 1},
    {"type": "quniform", "low": 0, "high": 1, "step": 0},
    {"type": "quniform", "low": 0, "high": 1, "step": -1},
    {"type": "quniform", "low": 3, "high": 1, "step": 1},
    {"type": "randint", "low": 3, "high": 3},
    {"type": "uniform", "low": -1e308, "high": 1e308},
    {"type": "quniform", "low": 0, "high": 1e300, "step": 1e-300},
    {"type": "normal", "mu": 0, "sigma": 0},
    {"type": "normal", "mu": 0, "sigma": 1e308},
    {"type": "lognormal", "mu": 700, "sigma": 1},
    {"type": "qnormal", "mu": 0, "sigma": 1, "step": 0},
    {"type": "qlognormal", "mu": 0, "sigma": 1, "step": -1},
    {"type": "qloguniform", "low": 0, "high": 1, "step": 0.1},
    {**CHOICES, "values": []},
    {**CHOICES, "values": [{"_name": "a", "k": K}, {"_name": "a", "k": K}]},
    {"_type": "uniform", "_value": [2, 1]},
    {"_type": "uniform", "_value": [0, 1, 2]},
    {"_type": "quniform", "_value": [1, 9]},
    {"_type": "gauss", "_value": [0, 1]},
    {"_type": "uniform", "low": 0},
    {"_type": "choice", "_value": [{"k": {"_type": "choice", "_value": [1]}}]},
]


@pytest.mark.parametrize(
    ("parameter", "code", "within"),
    [
        *((parameter, "bad_search_space", "") for parameter in NO_SUCH_SPACE),
        ({**CHOICES, "values": {"a": 1}}, "wrong_type", ".values"),
        (CHOICES, "missing_field", ".values"),
        ({"type": "randint", "low": 0.5, "high": 3}, "wrong_type", ".low"),
        ({"type": "randint", "low": 0, "high": 2**60}, "high_range", ".high"),
        ({"type": "uniform", "low": "0", "high": 1}, "wrong_type", ".low"),
        ({"type": "uniform", "low": 0, "high": 1, "step": 1}, "unknown_field", ".step"),
        ({"type": "normal", "mu": 0}, "missing_field", ".sigma"),
        ({"type": "constant"}, "missing_field", ".value"),
        ({"_type": "uniform", "_value": ["0", 1]}, "wrong_type", ""),
        ({"_type": "choice", "_value": 1}, "wrong_type", "._value"),
        (
            {"_type": "choice", "_value": [{"_name": "a", "k": {"_type": "uniform", "_value": [1, 0]}}]},
            *("bad_search_space", "._value[0].k"),
        ),
        ({**CHOICES, "values": [{"_name": "", "k": K}]}, "bad_length", ".values[0]._name"),
        (
            {**CHOICES, "values": [{"_name": "a", "choice": {"type": "uniform", "low": 2}}]},
            *("missing_field", ".values[0].choice.high"),
        ),
        ({"type": None}, "unknown_value", ""),
        ({"type": ["uniform"]}, "unknown_value", ""),
    ],
)
def test_a_bad_parameter_is_refused_at_its_path(parameter: dict[str, Any], code: str, within: str) -> None:
    for name in ("lr", "loguniform"):  # which may be that of a type
        found = start(space={"ok": {"type": "choice", "values": [1]}, name: parameter})
        assert (found.code, found.path) == (code, f"$.space.{name}{within}")


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        ({"concurency": 3}, "did you mean 'concurrency'?"),
        ({"retry": {"losst": 3}}, "did you mean 'lost'?"),
        ({"tuner": {"nam": "tpe"}}, "did you mean 'name'?"),
        ({"space": {"lr": {"type": "uniform", "low": 0, "high": 1, "hihg": 1}}}, "did you mean 'high'?"),
        ({"zzzz": 1}, "unknown field 'zzzz'"),
    ],
)
def test_an_unknown_field_comes_with_the_nearest_known_one(changed: dict[str, Any], hint: str) -> None:
    assert start(**changed).message.endswith(hint)


@pytest.mark.parametrize(
    ("wire_type", "code", "said"),
    [
        pytest.param("trackside.start-serach.v1", "unknown_command", "did you mean", id="BI-10 mistyped"),
        pytest.param("pause", "unknown_command", START, id="BI-10 lists what is known"),
        pytest.param("", "unknown_command", "known:", id="BI-10 empty"),
        pytest.param("trackside.search-ended.v1", "unknown_command", "known:", id="BI-10 an event"),
        pytest.param("trackside.run-task.v1", "unknown_command", "known:", id="BI-10 a device's command"),
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


@pytest.mark.parametrize("levels", range(880, 1_000, 8))
def test_no_depth_is_too_much_for_the_reader(levels: int) -> None:
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    for value in (deep, b'{"id":' + deep + b',"data":{}}', b'{"id":"c","data":' + deep + b"}"):
        for content_type in (b"application/json", b"application/cloudevents+json"):
            found = read_command({"ce_id": b"c", "content-type": content_type}, None, value)
            assert found.problem is not None
