"""Draws malformed commands at random: wrong bytes, headers or JSON."""

import json
import string
from collections.abc import Callable
from random import Random
from typing import Any

from trackside.aggregates import documents
from trackside.aggregates.registry import AGGREGATES
from trackside.eventlog.log import Outgoing

TYPES = [kind.wire_type() for kind in AGGREGATES.commands]
EXAMPLES = documents.examples()
VALID_BODIES: dict[str, dict[str, Any]] = {
    wire_type: json.loads(EXAMPLES[wire_type].model_dump_json().replace('"digits"', '"noop"'))
    for wire_type in TYPES
}
"""The body of a good command of each type; workers of the tests know the task type `noop`."""
ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 1.5, -0.0, 1e308, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**40,
    float("nan"), float("inf"), "", " ", "a", "NaN", "1", "a\0b", "\ud800", "\U0001f600", "../..",
    "x" * 300, "x" * 70_000, "AKIA" + "A" * 16, "é" * 129, [], {}, [[]], [{}], {"": None}, {"a": {"b": []}},
    ["a"] * 50, [None] * 10_001, "1.5GB", "-1GiB", "cuda:0", "$ref", "__class__", {"type": "choice"},
    {"_type": "uniform", "_value": [1, 0]},
]  # fmt: skip
ODD_NAMES = [
    *("name", "type", "task_type", "space", "groups", "low", "values", "_name"),
    "",
    "a" * 300,
    "\0",
    "id",
]
NOT_JSON = [b"", None, b"[]", b"null", b"\xff\xfe", b"\xef\xbb\xbf{}", b"{}{}", b"1" * 5_000]
CONTENT_TYPES = [
    b"application/json", b"application/cloudevents+json", b"application/cloudevents+json; charset=utf-8",
    b"application/cloudevents-batch+json", b"APPLICATION/CLOUDEVENTS", b"", b"\xff", b"text/plain",
]  # fmt: skip


def draw_malformed(random: Random, stream: Callable[[], str]) -> Outgoing:
    """Draws a record for the commands topic: mostly almost valid, sometimes entirely invalid."""
    wire = random.choice(TYPES)
    body = json.loads(json.dumps(VALID_BODIES[wire]))
    for _ in range(random.choice([0, 1, 1, 1, 2, 5])):
        body = _mutated(random, body)
    attributes: dict[str, Any] = {
        "specversion": "1.0",
        "id": _id(random),
        "type": wire,
        "source": "fuzz",
        "partitionkey": stream(),
    }
    if random.random() < 0.3:
        name = random.choice([*attributes, "traceparent", "time", "datacontenttype"])
        attributes[name] = random.choice(ODD_VALUES)
    key = attributes["partitionkey"] if random.random() < 0.9 else random.choice(["", "other", "a/b", "\0"])
    octets = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else None
    if random.random() < 0.4:
        value, headers = {**attributes, "data": body}, [("content-type", random.choice(CONTENT_TYPES))]
    else:
        value, headers = body, [(f"ce_{name}", _bytes(text)) for name, text in attributes.items()]
        headers.append(("content-type", b"application/json"))
    if random.random() < 0.2:
        headers = _mutated_headers(random, headers)
    return Outgoing(octets, _encoded(random, value), headers)


def _id(random: Random) -> str:
    return "c-" + "".join(random.choices(string.hexdigits, k=12))


def _bytes(value: Any) -> bytes:
    return str(value).encode("utf-8", "surrogatepass")


def _mutated_headers(random: Random, headers: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Drops, repeats, reorders and corrupts headers, and adds others."""
    found = [header for header in headers if random.random() < 0.9]
    found += [random.choice(headers) for _ in range(random.randrange(3))]
    found += [(f"ce_{random.randrange(9)}", random.randbytes(5)), ("traceparent", random.randbytes(20))]
    if found:
        at = random.randrange(len(found))
        found[at] = (found[at][0], random.randbytes(random.randrange(30)))
    random.shuffle(found)
    return found


def _mutated(random: Random, value: Any, depth: int = 0) -> Any:
    """Replaces, adds or drops a value anywhere in a body."""
    if depth == 0 and random.random() < 0.02:
        return random.choice(ODD_VALUES)
    if isinstance(value, dict) and value and random.random() < 0.8:
        name = random.choice(list(value))
        draw = random.random()
        if draw < 0.15:
            return {other: inner for other, inner in value.items() if other != name}
        if draw < 0.3:
            return {**value, random.choice(ODD_NAMES): random.choice(ODD_VALUES)}
        return {**value, name: _mutated(random, value[name], depth + 1)}
    if isinstance(value, list) and value and random.random() < 0.7:
        at = random.randrange(len(value))
        return [*value[:at], _mutated(random, value[at], depth + 1), *value[at + random.randrange(2) :]]
    return random.choice(ODD_VALUES)


def _encoded(random: Random, value: Any) -> bytes | None:
    """Encodes JSON, and sometimes corrupts the text."""
    octets = json.dumps(value).encode()
    draw = random.random()
    if draw < 0.85:
        return octets
    at = random.randrange(len(octets))
    if draw < 0.88:
        return octets[:at]
    if draw < 0.91:
        return octets[:at] + random.randbytes(random.randrange(1, 5)) + octets[at + 1 :]
    if draw < 0.93:
        return (
            octets.replace(b'"', b'"a":1,"', 1) if random.random() < 0.5 else octets[:-1] + b',"a":1,"a":2}'
        )
    if draw < 0.95:
        deep = random.choice([33, 500, 5_000])
        return b'{"a":' * deep + b"1" + b"}" * deep
    if draw < 0.97:
        return random.choice(NOT_JSON)
    return random.randbytes(random.randrange(200))
