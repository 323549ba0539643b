"""JSON Schemas of parameters: checks schemas, and parameters against them. Pure."""

from collections.abc import Iterable

import jsonschema
import referencing
from jsonschema import exceptions
from referencing.jsonschema import DRAFT202012

from trackside.contracts.message import Json
from trackside.contracts.refusals import json_path
from trackside.contracts.secret_references import references_in, resolve

MAX_MESSAGE_CHARACTERS = 400
A_SECRET = "(a secret)"
"""The text that a schema sees in the place of a secret."""
_VALIDATOR = jsonschema.Draft202012Validator


class BadSchemaError(Exception):
    """A schema that can't be used; the message has the path within it and the rule."""


def check_schema(schema: Json) -> None:
    """Raises BadSchemaError for an invalid JSON Schema (2020-12), or one that refers to another document."""
    try:
        _VALIDATOR.check_schema(schema)
    except exceptions.SchemaError as error:
        raise BadSchemaError(f"at {json_path(error.absolute_path)}: {_short(error.message)}") from error
    resolver = referencing.Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    for reference in _references(schema):
        try:
            resolver.lookup(reference)
        except referencing.exceptions.Unresolvable as error:
            expected = "expected one within this schema, such as #/$defs/x"
            raise BadSchemaError(f"nothing is at $ref {reference[:200]!r}: {expected}") from error


def violation(schema: Json, parameters: Json) -> str | None:
    """Returns how parameters violate a schema, as a sentence with path and rule; None if they don't.

    In the place of a reference to a secret there is a text, of which only the type is checked.
    """
    validator = _VALIDATOR(schema, registry=referencing.Registry())
    places = {place for place, _ in references_in(parameters)}
    if places:
        parameters = resolve(parameters, lambda _: A_SECRET)
    errors = validator.iter_errors(parameters)
    error = exceptions.best_match(
        each for each in errors if each.validator == "type" or tuple(each.absolute_path) not in places
    )
    if error is None:
        return None
    return f"{json_path(error.absolute_path)}: {_short(error.message)} (rule: {error.validator})"


def _references(schema: object) -> Iterable[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _short(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE_CHARACTERS else f"{message[:MAX_MESSAGE_CHARACTERS]}..."
