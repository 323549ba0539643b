"""JSON Schemas (2020-12): whether one can be used, and how a value violates it. Pure.

Patterns are regular expressions of Rust's syntax, which match in linear time; `\\d`, `\\s` and `\\w`
are those of ECMAScript. Nothing outside of a schema is read.
"""

from functools import cache

from jsonschema_rs import (
    Draft202012Validator,
    ReferencingError,
    RegexOptions,
    ValidationError,
    ValidationErrorKind,
)

from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.refusals import json_path

MAX_PATTERN_BYTES = 200_000
"""How large a compiled pattern may be, which bounds how long it takes to compile: about 1 ms."""
MAX_MESSAGE = 300


class BadSchemaError(Exception):
    """A schema that can't be used; the message has the path within it and what is wrong."""


def compile_schema(schema: Json) -> Draft202012Validator:
    """Returns what checks values by a schema. Raises BadSchemaError."""
    try:
        _schema_of_schemas().validate(schema)
        return Draft202012Validator(
            schema,
            pattern_options=RegexOptions(size_limit=MAX_PATTERN_BYTES),
            validate_formats=False,
            offline=True,
        )
    except ValidationError as error:
        raise BadSchemaError(f"at {json_path(error.instance_path)}: {_why_bad(error)}") from error
    except (ReferencingError, ValueError) as error:
        raise BadSchemaError(shortened(str(error))) from error


@cache
def _schema_of_schemas() -> Draft202012Validator:
    return Draft202012Validator({"$ref": "https://json-schema.org/draft/2020-12/schema"}, offline=True)


def _why_bad(error: ValidationError) -> str:
    match error.kind:
        case ValidationErrorKind.AnyOf(context=[[first, *_], *_]):  # one type, or a list of types
            return shortened(first.message)
        case ValidationErrorKind.Referencing():
            expected = "expected one within this schema, such as #/$defs/x"
            return f"a $ref leads nowhere: {shortened(error.message)}; {expected}"
        case ValidationErrorKind.Format() | ValidationErrorKind.Pattern():
            limit = f"of Rust's syntax that compiles to at most {MAX_PATTERN_BYTES:,} bytes"
            return f"{shortened(error.message)} {limit}"
    return shortened(error.message)


def shortened(message: str) -> str:
    """Returns a message, or the first `MAX_MESSAGE` characters of it."""
    return message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}..."
