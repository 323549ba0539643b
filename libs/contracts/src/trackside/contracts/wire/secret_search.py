"""Where JSON has what looks like a secret: in commands, in what is decided, in results, and in the log.

A text is judged by its shape, and by what it is called: the name of its field. A list gives its name to its
items, and a field that says of another one what it is (`default`, `values`) has the name of that one:

    {"db_password": {"type": "string", "default": "hunter2"}}      called db_password
    {"api_key": ["a1b2c3"]}                                        called api_key
    [{"name": "DB_PASSWORD", "value": "hunter2"}]                  called DB_PASSWORD
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from trackside.contracts.envelope.redaction import REDACTED, is_called_secret, looks_secret, mask_secrets
from trackside.contracts.envelope.secret_references import Location, is_reference, may_refer

A_KEY = "(a key)"
"""The last part of the place of a key that looks like a secret."""
_OF_ANOTHER = frozenset(
    ("value", "values", "_value", "default", "$default", "const", "enum", "example", "examples")
)
_NAMES = ("name", "key")
_OF_NAMES = {"sources": re.compile(r"[\w.-]+@\d+"), "digests": re.compile("[0-9a-f]{64}")}
"""Fields of events whose own fields are named by people, by references and task types, and what those have:
places in the log and digests, which are no secrets, however they are called."""


def name_within(holder: Mapping[str, Any], field: str, outer: str = "") -> str:
    """Returns what the text of a field is called, in an object that is called `outer`."""
    if field not in _OF_ANOTHER:
        return field
    named = (holder.get(each) for each in _NAMES) if field == "value" else ()
    return next((each for each in named if isinstance(each, str) and each), outer)


def is_secret(name: str, text: str) -> bool:
    """Returns whether a text that is called `name` looks like a secret."""
    return looks_secret(text) or is_called_secret(name, text)


def secrets_in(value: Any) -> Iterator[Location]:
    """Yields the places of what looks like a secret in JSON; that of a key ends with `A_KEY`.

    References to secrets are none. Takes as long as the value is large, however deep it is.
    """
    waiting: list[tuple[Location, str, Any]] = [((), "", value)]
    while waiting:
        at, name, each = waiting.pop()
        if isinstance(each, str):
            if is_secret(name, each):
                yield at
        elif isinstance(each, list):
            waiting.extend(((*at, index), name, inner) for index, inner in enumerate(each))
        elif isinstance(each, dict) and not (is_reference(each) and may_refer(at)):
            for key, inner in each.items():
                if looks_secret(key):
                    yield (*at, A_KEY)
                elif not (name in _OF_NAMES and isinstance(inner, str) and _OF_NAMES[name].fullmatch(inner)):
                    waiting.append(((*at, key), name_within(each, key, name), inner))


def without_secrets(value: Any, name: str = "") -> Any:
    """Returns JSON that is called `name` with `[redacted]` in place of what looks like a secret."""
    if isinstance(value, str):
        return REDACTED if is_called_secret(name, value) else mask_secrets(value)
    if isinstance(value, list):
        return [without_secrets(each, name) for each in value]
    if isinstance(value, dict):
        return {
            mask_secrets(key): without_secrets(each, name_within(value, key, name))
            for key, each in value.items()
        }
    return value


def redacted_in(value: Any, at: Location = ()) -> Iterator[Location]:
    """Yields the places of JSON where something was redacted; that of a key ends with `A_KEY`."""
    if isinstance(value, str):
        if REDACTED in value:
            yield at
        return
    for step, each in enumerate(value) if isinstance(value, list) else ():
        yield from redacted_in(each, (*at, step))
    for key, each in value.items() if isinstance(value, dict) else ():
        if REDACTED in key:
            yield (*at, A_KEY)
        yield from redacted_in(each, (*at, key))
