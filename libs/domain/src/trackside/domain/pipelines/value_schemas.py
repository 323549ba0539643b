"""JSON Schemas that publishers give for values: of a pipeline's parameters, and of the forms of gates. Pure.

The dispatcher checks values by them, so what a check costs is counted before it is done, and what can't be
counted so is refused in a schema.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from jsonschema_rs import ValidationError

from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import Problem, json_path
from trackside.domain.json_schemas import BadSchemaError, compile_schema, shortened
from trackside.domain.pipelines.json_limits import json_problems

MAX_PATTERNS = 100
"""How many patterns the schemas of a command may have: each is compiled."""
MAX_COMPARISONS = 1_000_000
"""How many comparisons the checks of a command may take: the parts of a schema times those of its value."""
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


class SchemaCheck(NamedTuple):
    """A schema, and a value to check by it if there is one; `path` is where the schema or the value is."""

    path: str
    schema: Json
    values: tuple[Any, ...]


class SchemaCosts:
    """What the checks of one command cost together: of its own schemas, and of those of its children."""

    def __init__(self) -> None:
        self._patterns = self._comparisons = 0

    def add(self, checks: Iterable[SchemaCheck]) -> Problem | None:
        """Counts checks that are to be done; returns why it would take too long, None if it doesn't."""
        for path, schema, values in checks:
            self._patterns += sum("pattern" in each for _, each in _schemas(schema, ""))
            self._comparisons += sum(_parts(schema) * _parts(value) for value in values)
            if self._patterns > MAX_PATTERNS:
                return _too_costly(
                    path, f"up to here there are {self._patterns:,} patterns, {MAX_PATTERNS:,} are allowed"
                )
            if self._comparisons > MAX_COMPARISONS:
                return _too_costly(
                    path,
                    f"up to here values would be compared {self._comparisons:,} times with parts of their "
                    f"schemas, {MAX_COMPARISONS:,} times are allowed",
                )
        return None


def _too_costly(path: str, message: str) -> Problem:
    return Problem(code="too_costly", path=path, message=f"the schemas take too long to check: {message}")


def schema_problem(schema: Json) -> str | None:
    """Returns what is wrong with a schema, with the path in it; None if it can be used."""
    for problem in json_problems(schema, "$"):
        return f"at {problem.path}: {problem.message}"
    for path, each in _schemas(schema, "$"):
        for name, why in _REFUSED.items():
            if name in each:
                return f"at {path}: {name!r} is not available: {why}"
    try:
        compile_schema(schema)
    except BadSchemaError as error:
        return str(error)
    return None


def violation(schema: Json, value: Any) -> tuple[str, str] | None:
    """Returns path (`$` is the value) and message of how a value violates a schema; None if it doesn't.

    The schema is one without problems, the value is JSON within the limits.
    """
    try:
        compile_schema(schema).validate(value)
    except ValidationError as error:
        return json_path(error.instance_path), shortened(error.message)
    return None


def _schemas(schema: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields a schema and those in it, each with its path; it needs not be a valid one."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for name, inner in schema.items():
        if name in _MAPS and isinstance(inner, dict):
            for key, each in inner.items():
                yield from _schemas(each, f"{path}.{name}.{key}")
        elif name in _LISTS and isinstance(inner, list):
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
