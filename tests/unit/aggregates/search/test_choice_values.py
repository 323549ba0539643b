"""A value of a choice is any JSON; `_name` marks a sub-space only with definitions of parameters."""

import json
from typing import Any

import pytest

from tests.commands import command_of
from trackside.aggregates.search.messages import SearchSpec, StartSearch
from trackside.aggregates.search.space.axes import axes_of, encode, parameters_faults, point_at, size
from trackside.aggregates.search.space.builtin_tuners import TUNERS, check_tuner
from trackside.aggregates.search.space.promoting_options import PROMOTING
from trackside.contracts.envelope.refusals import Problem
from trackside.dispatcher.advisor.advisor import make_tuner
from trackside.domain.display.text import as_text
from trackside.replay.derive.importances import flattened

ANY_JSON = [
    *([64, 64], [128], [], [[1, [2]], {"deep": [None]}], {"optimizer": "Adam", "lr": 0.001}),
    *({"optimizer": "SGD", "lr": 0.1}, {"_name": "plain", "units": 3}, {"_name": "bare"}, {"_name": 7}),
    *({"type": "adam"}, {"init": {"type": "uniform", "low": 0, "high": 1}}, {}, None, True, 1, "1"),
]
BATCHES = [{"optimizer": "Adam", "learning_rate": 0.00001}, {"optimizer": "SGD", "learning_rate": 0.001}]


def read(space: dict[str, Any], **fields: Any) -> StartSearch | Problem:
    body = {"task_type": "t", "max_trials": 9, "space": space, **fields}
    found = command_of(StartSearch.wire_type(), body)
    assert isinstance(found, StartSearch | Problem)
    return found


def accepted(space: dict[str, Any], **fields: Any) -> dict[str, Any]:
    found = read(space, **fields)
    assert isinstance(found, StartSearch), found
    written: dict[str, Any] = json.loads(found.model_dump_json())["space"]
    assert found.model_dump(mode="json")["space"] == written
    spec = {"task_type": "t", "max_trials": 9, "space": written}
    assert SearchSpec.model_validate_json(json.dumps(spec)).space == found.space
    return written


@pytest.mark.parametrize("value", ANY_JSON, ids=json.dumps)
def test_a_value_of_a_choice_or_a_constant_is_any_json(value: Any) -> None:
    ours = {"type": "choice", "values": [value, "other"]}
    assert accepted({"c": ours}) == accepted({"c": {"_type": "choice", "_value": [value, "other"]}})
    assert accepted({"c": ours})["c"] == ours
    constant = {"type": "constant", "value": value}
    assert accepted({"c": constant})["c"] == constant


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.thorough) if name == "gp" else name
        for name in sorted(name for name, kind in TUNERS.items() if "choice" in kind.types)
        if name not in PROMOTING
    ],
)
def test_every_tuner_suggests_lists_and_objects_and_learns_from_them(name: str) -> None:
    space = {"c": {"type": "choice", "values": ANY_JSON}}
    options = {"sets": [{"c": value} for value in ANY_JSON]} if name == "batch" else {}
    spec = {"name": name, "options": options}
    assert check_tuner(space, spec) == []
    tuner = make_tuner(space, spec, 7, "maximize")
    suggested = []
    for number in range(len(ANY_JSON)):
        parameters = tuner.ask(number)
        assert parameters is not None
        suggested.append(json.dumps(parameters["c"], sort_keys=True))
        tuner.tell(number, "complete", float(number))
    assert sorted(suggested) == sorted(json.dumps(value, sort_keys=True) for value in ANY_JSON)
    assert tuner.ask(len(ANY_JSON)) is None


def test_the_space_of_nnis_batch_tuner_is_tried_in_its_order() -> None:
    space = accepted({"combine_params": {"_type": "choice", "_value": BATCHES}}, tuner={"name": "batch"})
    assert check_tuner(space, {"name": "batch"}) == []
    tuner = make_tuner(space, {"name": "batch"}, 7, "maximize")
    assert [tuner.ask(0), tuner.ask(1), tuner.ask(2)] == [*({"combine_params": one} for one in BATCHES), None]
    two = {**space, "x": {"type": "choice", "values": [1, 2]}}
    assert [path for path, _ in check_tuner(two, {"name": "batch"})] == ["$.tuner.options.sets"]


def test_equal_values_are_those_of_json() -> None:
    axes = axes_of({"c": {"type": "choice", "values": [[1, 2], {"a": 1}, 1, True, "1"]}})
    codes = [encode(axes, {"c": value})["c"] for value in ([1.0, 2], {"a": 1.0}, 1.0, True, "1")]
    assert codes == [0, 1, 2, 3, 4]
    only_one = axes_of({"c": {"type": "choice", "values": [1, [1]]}, "k": {"type": "constant", "value": 1}})
    for wrong in (True, [True], "1", {"_name": 1}):
        [(path, message)] = parameters_faults(only_one, {"c": wrong, "k": 1})
        assert (path, message) == ("$.c", f"{json.dumps(wrong)} is none of the choices: 1, [1]")
    assert parameters_faults(only_one, {"c": 1, "k": True}) == [("$.k", "true is not the constant 1")]
    assert parameters_faults(only_one, {"c": 1, "k": 1.0}) == []


def test_a_sub_space_and_plain_values_share_a_choice() -> None:
    conv = {"_name": "conv", "kernel": {"_type": "randint", "_value": [1, 3]}}
    space = accepted({"layer": {"_type": "choice", "_value": [conv, {"_name": "none"}, [3]]}})
    axes = axes_of(space)
    points = [point_at(axes, index) for index in range(size(axes) or 0)]
    assert points == [
        {"layer": {"_name": "conv", "kernel": 1}},
        {"layer": {"_name": "conv", "kernel": 2}},
        {"layer": {"_name": "none"}},
        {"layer": [3]},
    ]
    assert [encode(axes, point)["layer"] for point in points] == [0, 0, 1, 2]
    assert check_tuner(space, {"name": "nsga2"}) != []
    plain = {"layer": {"type": "choice", "values": [{"_name": "none"}, {"_name": "one"}]}}
    assert check_tuner(plain, {"name": "nsga2"}) == []


def test_what_was_meant_as_a_sub_space_is_not_taken_for_a_value() -> None:
    for values, reason in (
        ([{"kernel": {"_type": "choice", "_value": [1]}}], "has definitions of parameters and no _name"),
        ([{"_name": "conv", "kernel": {"_type": "choise", "_value": [1]}}], "unknown _type 'choise'"),
        ([{"_name": "a"}, {"_name": "a", "k": {"type": "randint", "low": 0, "high": 2}}], "_name 'a'"),
    ):
        found = read({"layer": {"_type": "choice", "_value": values}})
        assert isinstance(found, Problem)
        assert found.path.startswith("$.space.layer")
        assert reason in found.message


def test_lists_and_objects_are_short_texts_and_one_parameter_each() -> None:
    parameters = {"sizes": [[64, 64], [128]], "set": BATCHES[0], "x": 0.123456789}
    text = as_text(parameters)
    assert text == 'set={"optimizer": "Adam", "learning_rate": 1e-05} sizes=[[64, 64], [128]] x=0.12346'
    assert as_text([[64, 64], [128]]) == "[64, 64], [128]"
    assert len(as_text({"long": list(range(1000))})) < 80
    assert flattened(parameters) == parameters
