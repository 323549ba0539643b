"""Inputs of forms from JSON Schemas that publishers wrote."""

import pytest

from trackside.console.commands.forms import CHOICE, FLAG, JSON, NUMBER, TEXT, body_of
from trackside.console.commands.schema_inputs import schema_inputs
from trackside.contracts.message import Json


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
def test_the_kind_of_an_input_follows_from_the_schema(
    schema: Json, kind: str, text: str, required: bool
) -> None:
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
def test_limits_of_numbers_are_those_of_the_schema(
    schema: Json, lowest: float | None, highest: float | None
) -> None:
    (made,) = schema_inputs("parameters", {"n": schema})
    assert (made.lowest, made.highest) == (lowest, highest)


def test_a_name_with_a_dot_makes_one_input_for_all() -> None:
    (made,) = schema_inputs("parameters", {"a.b": {"default": 1}, "c": {"type": "string"}})
    assert (made.name, made.text) == ("json:parameters", '{"a.b": 1}')
    assert body_of([(made.name, made.text)]) == ({"parameters": {"a.b": 1}}, [])


def test_values_replace_defaults() -> None:
    (made,) = schema_inputs("parameters", {"n": {"type": "integer", "default": 1}}, {"n": 4})
    assert made.text == "4"


def test_a_choice_that_is_no_text_keeps_its_type() -> None:
    (made,) = schema_inputs("parameters", {"n": {"enum": [16, 32]}})
    assert list(made.choices) == ["16", "32"]
    assert body_of([(made.name, "32")]) == ({"parameters": {"n": 32}}, [])
