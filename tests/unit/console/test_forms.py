from typing import Any

import pytest

from trackside.aggregates.registry import AGGREGATES
from trackside.aggregates.search.messages import AddTrial, PauseSearch, UpdateSearch
from trackside.console.commands.actions import actions_of, trial_inputs, worker_actions
from trackside.console.commands.forms import CHOICE, FLAG, JSON, NUMBER, TEXT, Input, body_of
from trackside.console.commands.pipeline_actions import schedule_actions
from trackside.console.commands.schema_inputs import inputs_of, schema_inputs
from trackside.contracts.envelope.message import Json


def test_inputs_have_the_kind_the_limits_and_the_present_value_of_their_field() -> None:
    found = {each.path: each for each in inputs_of(UpdateSearch, ("concurrency", "goal", "remove"))}
    assert (found["concurrency"].kind, found["concurrency"].whole) == (NUMBER, True)
    assert (found["goal"].kind, found["goal"].whole) == (NUMBER, False)
    assert found["remove"].kind == JSON
    running, reason = inputs_of(PauseSearch, ("running", "reason"))
    assert (running.kind, running.choices, running.value) == (CHOICE, ["finish", "return"], "finish")
    assert reason.kind == TEXT
    assert [each.required for each in inputs_of(AddTrial, ("parameters", "outside"))] == [True, False]
    (concurrency,) = inputs_of(UpdateSearch, ("concurrency",), {"concurrency": 4})
    assert concurrency.text == "4"
    (concurrency,) = inputs_of(UpdateSearch, ("concurrency",))
    assert concurrency.lowest == 1 and concurrency.help.startswith("at least 1")


def test_a_space_makes_an_input_for_each_parameter() -> None:
    space: dict[str, Any] = {
        "rate": {"type": "loguniform", "low": 1e-5, "high": 0.1},
        "kind": {"type": "choice", "values": ["adam", "sgd"]},
        "size": {"type": "choice", "values": [16, 32]},
        "a.b": {"type": "uniform", "low": 0, "high": 1},
    }
    found = [(each.path, each.kind) for each in trial_inputs(space)]
    rest = [("parameters", JSON), ("tell_tuner", FLAG), ("outside", FLAG)]
    own = [("parameters.rate", NUMBER), ("parameters.kind", CHOICE), ("parameters.size", JSON)]
    assert found == [*own, *rest]


def test_a_body_is_made_of_the_inputs_that_have_a_text() -> None:
    texts = {"type": "trackside.add-trial.v1", "command_id": "x" * 16, "flag:outside": "true"}
    texts |= {"number:parameters.rate": "0.01", "choice:parameters.kind": "adam"}
    texts |= {"json:parameters.size": "32", "number:parameters.depth": ""}
    body, problems = body_of([*texts.items()])
    assert body == {"parameters": {"rate": 0.01, "kind": "adam", "size": 32}, "outside": True}
    assert problems == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("number:concurrency", "many", "'many' is not a number"),
        ("number:concurrency", "NaN", "'NaN' is not a number"),
        ("number:concurrency", "true", "'true' is not a number"),
        ("json:space", "{", "not JSON"),
        ("code:space", "x", "'code' is not a kind of input"),
    ],
)
def test_a_text_that_is_no_value_is_a_problem_at_its_field(name: str, text: str, said: str) -> None:
    body, problems = body_of([(name, text)])
    assert body == {}
    assert [each.path for each in problems] == [f"$.{name.partition(':')[2]}"]
    assert said in problems[0].message


def test_an_input_within_a_value_is_a_problem() -> None:
    _, problems = body_of([("number:a", "1"), ("number:a.b", "2")])
    assert [each.path for each in problems] == ["$.a.b"]


class Row(dict[str, Any]):
    def __missing__(self, name: str) -> None:
        return None


def test_every_kind_of_experiment_has_actions_and_the_names_of_inputs_are_unique_on_a_page() -> None:
    row = Row(status="RUNNING", spec={"space": {}})
    for aggregate in AGGREGATES.types:
        assert actions_of(aggregate.kind, "some", row), aggregate.kind
    assert Input("a.b", NUMBER, "b").name == "number:a.b"
    forms = actions_of("search", "s", {"ended_at": None, "status": "RUNNING", "spec": {"space": {}}})
    assert len({form.key for form in forms}) == len(forms)


def test_an_edited_schedule_keeps_what_its_form_does_not_show() -> None:
    spec = {"cron": "0 6 * * *", "timezone": "UTC", "overlap": "queue", "catch_up": "latest", "seed": 7}
    forms = schedule_actions("p", {"schedule": "mornings", "status": "ACTIVE", "spec": spec})
    edit = next(form for form in forms if form.label == "Edit")
    body, problems = body_of([*edit.hidden, *((each.name, each.text) for each in edit.inputs)])
    assert body == {"name": "mornings", "schedule": spec} and problems == []
    spec = {"on": {"stream": "s", "event": "ended"}, "timezone": "UTC", "overlap": "skip", "catch_up": "none"}
    edit = schedule_actions("p", {"schedule": "after", "status": "ACTIVE", "spec": spec})[1]
    body, _ = body_of([*edit.hidden, *((each.name, each.text) for each in edit.inputs)])
    assert body["schedule"] == spec


def test_a_worker_is_drained_by_a_command_for_each_device_that_gets_tasks() -> None:
    devices = [{"device_id": f"gpu-{number}", "draining": number == 1} for number in range(3)]
    drain, resume = worker_actions("w1", devices)
    assert drain.hidden == [("devices", "gpu-0"), ("devices", "gpu-2")]
    assert resume.hidden == [("devices", "gpu-1")]
    assert body_of(resume.hidden) == ({}, [])
    assert [form.label for form in worker_actions("w1", devices[:1])] == ["Drain all devices"]


@pytest.mark.parametrize(
    ("schema", "kind", "text", "required"),
    [
        ({"type": "integer", "default": 5}, NUMBER, "5", False),
        ({"type": "number"}, NUMBER, "", True),
        ({"type": "string", "default": "a"}, TEXT, "a", False),
        ({"type": "boolean", "default": True}, FLAG, "true", False),
        ({"type": "boolean"}, FLAG, "", True),
        ({"enum": ["a", "b"], "default": "b"}, CHOICE, "b", False),
        ({"enum": ["a", "b"]}, CHOICE, "a", True),
        ({"enum": [1, "b"], "default": "b"}, JSON, '"b"', False),
        ({"type": "array", "default": [1]}, JSON, "[1]", False),
        ({}, JSON, "", True),
        ({"default": None}, JSON, "null", False),
    ],
)
def test_the_kind_of_an_input_is_by_its_schema(schema: Json, kind: str, text: str, required: bool) -> None:
    (made,) = schema_inputs("parameters", {"x": schema})
    assert (made.name, made.text, made.required) == (f"{kind}:parameters.x", text, required)


def test_bounds_and_description_are_the_help_of_an_input() -> None:
    schema = {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many"}
    (made,) = schema_inputs("inputs", {"n": schema})
    assert (made.lowest, made.highest, made.whole) == (1, 9, True)
    assert made.help == "How many, at least 1, at most 9"


@pytest.mark.parametrize(
    ("schema", "lowest", "highest"),
    [
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10}, 1, 9),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, 0, 0.5),
        ({"type": "number"}, None, None),
    ],
)
def test_numbers_have_limits_of_the_schema(schema: Json, lowest: float | None, highest: float | None) -> None:
    (made,) = schema_inputs("parameters", {"n": schema})
    assert (made.lowest, made.highest) == (lowest, highest)


def test_a_name_with_a_dot_makes_one_input_values_replace_defaults_and_choices_keep_their_type() -> None:
    (made,) = schema_inputs("parameters", {"a.b": {"default": 1}, "c": {"type": "string"}})
    assert (made.name, made.text) == ("json:parameters", '{"a.b": 1}')
    assert body_of([(made.name, made.text)]) == ({"parameters": {"a.b": 1}}, [])
    (made,) = schema_inputs("parameters", {"n": {"type": "integer", "default": 1}}, {"n": 4})
    assert made.text == "4"
    (made,) = schema_inputs("parameters", {"n": {"enum": [16, 32]}})
    assert list(made.choices) == ["16", "32"]
    assert body_of([(made.name, "32")]) == ({"parameters": {"n": 32}}, [])
