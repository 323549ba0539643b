"""Checks that the schema of a message still accepts all that its published schema accepted.

Compares two JSON Schemas of one message as pydantic writes them. The published ones are in `published/`: what
a release accepts, from commands and from logs. Additions are compatible; removals are breaking changes, and
need a new version of the message with an upcaster.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackside.contracts.envelope.message import Message

PUBLISHED = Path(__file__).parent / "published"
Schema = Mapping[str, Any] | bool
_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_SAME = ("pattern", "format", "multipleOf", "uniqueItems")


def published_schema(kind: type[Message]) -> dict[str, Any]:
    """Returns the schema that a message is read by, without titles and descriptions."""
    return dict(_plain(kind.model_json_schema(mode="validation")))


def schema_text(schema: Mapping[str, Any]) -> str:
    """Formats a schema as it is committed."""
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


def _plain(value: Any) -> Any:
    """Drops annotations; a field may itself be called `title`."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, inner in value.items():
        if name in ("properties", "$defs"):
            found[name] = {own: _plain(part) for own, part in inner.items()}
        elif not (name in ("title", "description", "discriminator") and not isinstance(inner, bool)):
            found[name] = inner if name in ("default", "const", "enum") else _plain(inner)
    return found


def breaking_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Lists the paths where the new schema refuses what the old one accepted, or lacks a field."""
    return list(_Pair(old, new, frozenset()).at("$", old, new))


@dataclass(frozen=True)
class _Pair:
    """Two documents, and the pairs of definitions that are being compared (a space may hold a space)."""

    old: Mapping[str, Any]
    new: Mapping[str, Any]
    within: frozenset[tuple[str, str]]

    def at(self, path: str, old: Schema, new: Schema) -> Iterator[str]:
        """Yields the breaks at a path."""
        yield from _changed_default(path, old, new)
        options = list(_alternatives(self.new, new))
        for name, wanted in _alternatives(self.old, old):
            found = [list(self._named(path, (name, other), wanted, option)) for other, option in options]
            if found and all(found):
                yield from min(found, key=_distance)

    def _named(
        self, path: str, names: tuple[str, str], old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> Iterator[str]:
        """Yields the breaks between two alternatives; two definitions within themselves are passed over."""
        if not all(names):
            yield from self._one(path, old, new)
        elif names not in self.within:
            yield from _Pair(self.old, self.new, self.within | {names})._one(path, old, new)

    def _one(self, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
        """Yields the breaks between two alternatives."""
        if not new:
            return
        kinds = (old.get("type"), new.get("type"))
        if kinds[0] != kinds[1] and kinds != ("integer", "number") and ("type" in new or "type" not in old):
            yield f"{path}: narrowed type: {_kind(old)} was read, now {_kind(new)}"
            return
        yield from _narrowed_values(path, old, new)
        yield from _narrowed_bounds(path, old, new)
        if old.get("type") == "object":
            yield from self._object(path, old, new)
        if old.get("type") == "array":
            yield from self.at(f"{path}[]", old.get("items", True), new.get("items", True))

    def _object(self, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        for name in before.keys() - after.keys():
            yield f"{path}.{name}: removed field"
        for name in set(new.get("required", ())) - set(old.get("required", ())):
            yield f"{path}.{name}: new required field"
        for name in before.keys() & after.keys():
            yield from self.at(f"{path}.{name}", before[name], after[name])
        more = (old.get("additionalProperties", True), new.get("additionalProperties", True))
        if more[0] is not False and more[1] is False:
            yield f"{path}: narrowed type: other fields were read"
        elif more[0] is not False:
            yield from self.at(f"{path}.*", more[0], more[1])


def _alternatives(
    document: Mapping[str, Any], schema: Schema, name: str = ""
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields what a schema allows, one kind at a time: references followed, unions taken apart.

    Each with the name of the definition that it is, or is part of.
    """
    if isinstance(schema, bool):
        if schema:
            yield name, {}
        return
    if "$ref" in schema:
        inner = schema["$ref"].rpartition("/")[2]
        yield from _alternatives(document, document["$defs"][inner], inner)
        return
    for union in ("anyOf", "oneOf"):
        if union in schema:
            for member in schema[union]:
                yield from _alternatives(document, member, name)
            return
    said = {key: value for key, value in schema.items() if key not in ("default", "examples")}
    kinds = said.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        yield name, ({**said, "type": kind} if kind is not None else said)


def _distance(found: list[str]) -> tuple[bool, int]:
    """Orders the breaks with each alternative, so that the one of the same type is the nearest."""
    return ("narrowed type: " in found[0] and " was read, now " in found[0], len(found))


def _kind(schema: Mapping[str, Any]) -> str:
    return str(schema.get("type", "anything" if not schema else "a value of a list"))


def _values(schema: Mapping[str, Any]) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _narrowed_values(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    before, after = _values(old), _values(new)
    if after is None:
        return
    if before is None:
        yield f"{path}: narrowed type: any {_kind(old)} was read, now only {after}"
        return
    for value in before:
        if value not in after:
            yield f"{path}: removed value {value!r}"


def _narrowed_bounds(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in (*_LEAST, *_MOST, *_SAME):
        if name not in new or new[name] == old.get(name):
            continue
        was_less = name in _LEAST and new[name] <= old.get(name, float("-inf"))
        was_more = name in _MOST and new[name] >= old.get(name, float("inf"))
        if not was_less and not was_more:
            yield f"{path}: narrowed type: {name} was {old.get(name, 'not there')}, is {new[name]}"


def _changed_default(path: str, old: Schema, new: Schema) -> Iterator[str]:
    """Yields a default that means something else: a command that leaves the field out says it still."""
    if isinstance(old, bool) or isinstance(new, bool) or "default" not in old or "default" not in new:
        return
    if not _still_said(old["default"], new["default"]):
        yield f"{path}: changed default: was {old['default']!r}, is {new['default']!r}"


def _still_said(old: Any, new: Any) -> bool:
    if isinstance(old, dict) and isinstance(new, dict):
        return all(name in new and _still_said(value, new[name]) for name, value in old.items())
    return bool(old == new)
