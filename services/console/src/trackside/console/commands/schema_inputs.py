"""Inputs of forms from JSON Schemas that publishers wrote: parameters of pipelines, forms of gates."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from trackside.console.commands.forms import CHOICE, FLAG, JSON, NUMBER, TEXT, Input

MAX_HELP = 200
"""How many characters of what a schema says are shown."""


def schema_inputs(
    field: str, schemas: Mapping[str, Any], values: Mapping[str, Any] | None = None
) -> list[Input]:
    """Returns an input for each schema; their values are in the field of the command's body of this name.

    `values` replace the defaults. One without a default is needed. Where a name has a dot, which is what
    separates the names of a path, there is one input for all as JSON.
    """
    known = {name: schema["default"] for name, schema in _objects(schemas) if "default" in schema}
    known |= values or {}
    if any("." in name for name in schemas):
        expected = f"as JSON, an object with {', '.join(schemas)}"
        return [Input(field, JSON, field.replace("_", " "), json.dumps(known), expected)]
    return [
        _input(f"{field}.{name}", name, schema if isinstance(schema, dict) else {}, known)
        for name, schema in schemas.items()
    ]


def _objects(schemas: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, schema) for name, schema in schemas.items() if isinstance(schema, dict)]


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
            lowest = schema.get("minimum", schema.get("exclusiveMinimum"))
            highest = schema.get("maximum", schema.get("exclusiveMaximum"))
            whole = kind == "integer"
            text = "" if value is None else value
            return Input(path, NUMBER, label, text, help_text, required, (), lowest, highest, whole)
        case "string":
            return Input(path, TEXT, label, "" if value is None else value, help_text, required)
    text = "" if required else json.dumps(value, ensure_ascii=False)
    return Input(path, JSON, label, text, f"as JSON{'; ' if help_text else ''}{help_text}", required)


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
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "more than",
        "maximum": "at most",
        "exclusiveMaximum": "less than",
        "minLength": "characters at least:",
        "maxLength": "characters at most:",
        "pattern": "like",
    }
    parts += [f"{text} {schema[name]}" for name, text in words.items() if name in schema]
    text = ", ".join(parts)
    return text if len(text) <= MAX_HELP else f"{text[: MAX_HELP - 3]}..."
