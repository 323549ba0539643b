"""JSON Schemas that publishers give for values: of a pipeline's parameters, and of the forms of gates. Pure.

The dispatcher checks values by them, so what could take long, fail or read a file is refused in a schema.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.validators import extend
from pydantic_core import SchemaError as UnusablePatternError
from pydantic_core import SchemaValidator
from pydantic_core import ValidationError as MismatchError

from trackside.contracts.message import Json
from trackside.contracts.refusals import json_path
from trackside.domain.pipelines.json_limits import json_problems

MAX_WORK = 1_000_000
"""How many comparisons a check may take: the parts of the schema times those of the value."""
MAX_MESSAGE = 300
_REFUSED = {
    "$ref": "write the schema where it is needed",
    "$dynamicRef": "write the schema where it is needed",
    "$schema": "schemas are those of JSON Schema 2020-12",
    "patternProperties": "it can take too long",
    "unevaluatedItems": "it can take too long",
    "unevaluatedProperties": "it can take too long",
    "uniqueItems": "it can take too long",
}
_MAPS = ("properties", "$defs", "dependentSchemas")
_LISTS = ("prefixItems", "allOf", "anyOf", "oneOf")
_SINGLE = ("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else")


def schema_problem(schema: Json) -> str | None:
    """Returns what is wrong with a schema, with the path in it; None if it can be used."""
    for problem in json_problems(schema, "$"):
        return f"at {problem.path}: {problem.message}"
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return f"at {json_path(error.absolute_path)}: {_short(error.message)}"
    for path, each in _schemas(schema, "$"):
        for name, why in _REFUSED.items():
            if name in each:
                return f"at {path}: {name!r} is not available: {why}"
        if "pattern" in each and (wrong := _unusable_pattern(each["pattern"])) is not None:
            return f"at {path}.pattern: {wrong}"
    return None


def violation(schema: Json, value: Any) -> tuple[str, str] | None:
    """Returns path (`$` is the value) and message of how a value violates a schema; None if it doesn't.

    The schema is one without problems, the value is JSON within the limits.
    """
    if (work := _parts(schema) * _parts(value)) > MAX_WORK:
        return "$", f"too large to be checked: {work:,} comparisons, at most {MAX_WORK:,} are allowed"
    try:
        for error in _Validator(schema).iter_errors(value):
            return json_path(error.absolute_path), _short(error.message)
    except (ArithmeticError, RecursionError) as error:
        return "$", f"can't be checked: {_short(str(error) or type(error).__name__)}"
    return None


def _schemas(schema: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields a schema and those in it, each with its path."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for name, inner in schema.items():
        if name in _MAPS:
            for key, each in inner.items():
                yield from _schemas(each, f"{path}.{name}.{key}")
        elif name in _LISTS:
            for at, each in enumerate(inner):
                yield from _schemas(each, f"{path}.{name}[{at}]")
        elif name in _SINGLE:
            yield from _schemas(inner, f"{path}.{name}")


def _parts(value: Any) -> int:
    """Returns how many values a JSON value consists of."""
    count, waiting = 0, [value]
    while waiting:
        each = waiting.pop()
        count += 1
        if isinstance(each, dict):
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return count


def _text_validator(pattern: str) -> SchemaValidator:
    """Returns what matches a pattern in linear time; Python's own can take exponential time."""
    return SchemaValidator({"type": "str", "pattern": pattern}, {"regex_engine": "rust-regex"})


def _unusable_pattern(pattern: str) -> str | None:
    try:
        _text_validator(pattern)
    except UnusablePatternError as error:
        return f"not a regular expression of Rust's syntax: {_short(str(error))}"
    return None


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    if isinstance(value, str):
        try:
            _text_validator(pattern).validate_python(value)
        except MismatchError:
            yield ValidationError(f"{value!r} does not match {pattern!r}")


_Validator: Any = extend(Draft202012Validator, {"pattern": _pattern})


def _short(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}..."
