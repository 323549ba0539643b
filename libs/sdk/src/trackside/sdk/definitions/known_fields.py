"""The mappings of a spec file whose field names are known, found by the models of its command."""

from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trackside.contracts.envelope.message import Json


class KnownMapping(NamedTuple):
    """A mapping in a file: its path, the mapping, and the sorted names of the fields that it may have."""

    path: str
    value: Json
    names: list[str]


def known_mappings(path: str, value: Json, fields: Mapping[str, FieldInfo]) -> Iterator[KnownMapping]:
    """Yields a mapping of a file and all mappings within it whose field names are known."""
    yield KnownMapping(path, value, sorted(fields))
    for name, inner in value.items():
        if name in fields:
            yield from _within(f"{path}.{name}", inner, fields[name].annotation)


def _within(path: str, value: object, annotation: Any) -> Iterator[KnownMapping]:
    if not isinstance(value, dict | list):
        return
    inner = get_args(annotation)
    match get_origin(annotation):
        case origin if origin is Annotated:
            yield from _within(path, value, inner[0])
        case origin if origin in (Union, UnionType):
            for member in inner:
                yield from _within(path, value, member)
        case origin if origin is list and isinstance(value, list):
            for at, item in enumerate(value):
                yield from _within(f"{path}[{at}]", item, inner[0])
        case origin if origin is dict and isinstance(value, dict):
            for name, item in value.items():
                yield from _within(f"{path}.{name}", item, inner[1])
        case None if isinstance(value, dict) and _is_model_of(annotation, value):
            yield from known_mappings(path, value, annotation.model_fields)


def _is_model_of(annotation: Any, value: Json) -> bool:
    """Returns whether a type is a model with a closed list of fields, which a mapping is meant to have.

    Of the models of a union it is the one whose required literal field, such as `type`, has the value given.
    """
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return False
    return annotation.model_config.get("extra") == "forbid" and all(
        value.get(name) in get_args(field.annotation)
        for name, field in annotation.model_fields.items()
        if field.is_required() and get_origin(field.annotation) is Literal
    )
