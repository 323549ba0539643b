"""Inputs of forms from JSON Schemas: of the messages of commands, and those that publishers wrote."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic import BaseModel

from trackside.console.commands.forms import CHOICE, FLAG, JSON, NUMBER, TEXT, Input

MAX_HELP = 200
"""How many characters of what a schema says are shown."""
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "exclusiveMaximum": "less than",
    "minLength": "characters at least:",
    "maxLength": "characters at most:",
    "pattern": "like",
}
_OF_PROGRAMS = frozenset({"title", "minLength", "maxLength", "pattern"})
"""What a form does not show of a command's own schema: the refusal says it where it matters."""


def inputs_of(message: type[BaseModel], names: Iterable[str], values: Mapping[str, Any] = {}) -> list[Input]:
    """Returns an input for each of some fields of a message; one without a value is left out of it."""
    schema = _schema_of(message)
    required, definitions = schema.get("required", ()), schema.get("$defs", {})
    found = list[Input]()
    for name in names:
        shape = _resolved(schema["properties"][name], definitions)
        known = {name: values[name]} if values.get(name) is not None else {}
        if "enum" in shape and "default" in shape:
            known = {name: shape["default"], **known}
        limits = {key: value for key, value in shape.items() if key not in _OF_PROGRAMS}
        label, is_required = name.replace("_", " "), name in required
        found.append(replace(_input(name, name, limits, known), label=label, required=is_required))
    return found


@cache
def _schema_of(message: type[BaseModel]) -> Mapping[str, Any]:
    """Returns the JSON Schema of a message, which takes a millisecond to make."""
    return message.model_json_schema()


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of a field without the null that means that it is left out, references followed."""
    if "$ref" in schema:
        return _resolved(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(options) == 1:
        return {**schema, **_resolved(options[0], definitions)}
    return schema


def schema_inputs(
    field: str, schemas: Mapping[str, Any], values: Mapping[str, Any] | None = None
) -> list[Input]:
    """Returns an input for each schema; their values are in the field of the command's body of this name.

    `values` replace the defaults. One without a default is needed. Where a name has a dot, which is what
    separates the names of a path, there is one input for all as JSON.
    """
    found = {name: schema if isinstance(schema, dict) else {} for name, schema in schemas.items()}
    known = {name: schema["default"] for name, schema in found.items() if "default" in schema}
    known |= values or {}
    if any("." in name for name in schemas):
        expected = f"as JSON, an object with {', '.join(schemas)}"
        return [Input(field, JSON, field.replace("_", " "), json.dumps(known), expected)]
    return [_input(f"{field}.{name}", name, schema, known) for name, schema in found.items()]


def _input(path: str, name: str, schema: Mapping[str, Any], known: Mapping[str, Any]) -> Input:
    label = str(schema.get("title") or name)
    required, value = name not in known, known.get(name)
    options, help_text = schema.get("enum"), _help(schema)
    if options:
        return _choice(path, label, options, value, help_text, required)
    match schema.get("type"):
        case "boolean":
            return Input(path, FLAG, label, value, help_text, required)
        case "integer" | "number" as kind:
            whole = kind == "integer"
            lowest, highest = _limits(schema, whole)
            text = "" if value is None else value
            return Input(path, NUMBER, label, text, help_text, required, (), lowest, highest, whole)
        case "string":
            return Input(path, TEXT, label, "" if value is None else value, help_text, required)
    text = "" if required else json.dumps(value, ensure_ascii=False)
    return Input(path, JSON, label, text, f"as JSON{'; ' if help_text else ''}{help_text}", required)


def _limits(schema: Mapping[str, Any], whole: bool) -> tuple[float | None, float | None]:
    """Returns the lowest and the highest number that an input takes.

    For numbers that are not whole the limit itself is among them, also if the schema excludes it.
    """
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if whole:
        above = None if above is None else math.floor(above) + 1
        below = None if below is None else math.ceil(below) - 1
    lowest = [each for each in (schema.get("minimum"), above) if each is not None]
    highest = [each for each in (schema.get("maximum"), below) if each is not None]
    return max(lowest, default=None), min(highest, default=None)


def _choice(
    path: str, label: str, options: Sequence[Any], value: object, help_text: str, required: bool
) -> Input:
    if all(isinstance(option, str) for option in options):
        chosen = options[0] if value is None else value
        return Input(path, CHOICE, label, chosen, help_text, required, choices=list(options))
    texts = [json.dumps(option, ensure_ascii=False) for option in options]
    chosen = texts[0] if required else json.dumps(value, ensure_ascii=False)
    return Input(path, JSON, label, chosen, help_text, required, choices=texts)


def _help(schema: Mapping[str, Any]) -> str:
    """Returns what a schema says of its values: its description and its bounds."""
    parts = [str(schema["description"])] if schema.get("description") else []
    parts += [f"{text} {schema[name]}" for name, text in _BOUNDS.items() if name in schema]
    text = ", ".join(parts)
    return text if len(text) <= MAX_HELP else f"{text[: MAX_HELP - 3]}..."
