"""Mutants of recorded logs: an event is gone, doubled, swapped with its neighbour, or has another field."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from tests.unit.verify.recorded_logs import EVENTS, RecordedLog, stream_partition
from trackside.aggregates.documents import examples
from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.tasks import TaskAssigned
from trackside.eventlog.log import Entry

_REFERENCE = re.compile(rb"(?<![A-Za-z0-9._/-])([A-Za-z0-9._-]+)@([0-9]+)(?![0-9])")
_SEEN = re.compile(rb'"seen":([0-9]+)')
_SOURCE = re.compile(rb'"topic":"' + EVENTS.encode() + rb'","partition":([0-9]+),"offset":([0-9]+)')
_DECISION = ("ce_decisionid", "ce_index", "ce_count")
_EXAMPLES = examples()


@dataclass(frozen=True)
class Mutant:
    """A log with one fault: `kind` (the message, and the field that differs), and where it is."""

    fault: str
    message: str
    field: str
    log: RecordedLog
    place: tuple[int, int]

    @property
    def kind(self) -> str:
        return f"{self.fault} {self.message}{self.field and '.' + self.field}"


def headers_of(entry: Entry) -> dict[str, bytes | None]:
    return dict(entry.headers)


def with_headers(entry: Entry, **changed: bytes | None) -> Entry:
    """Returns an entry with other headers; None removes one."""
    headers = {**headers_of(entry), **changed}
    return replace(entry, headers=[(name, octets) for name, octets in headers.items() if octets is not None])


def moved(log: RecordedLog, partition: int, order: Sequence[Entry]) -> RecordedLog:
    """Returns a log with these entries in a partition of the events, each at the next offset.

    What names an offset names the same event as before, where that is still there.
    """
    place = (EVENTS, partition)
    times = sorted(entry.append_time_ms for entry in order)
    offsets: dict[int, int] = {}
    for at, entry in enumerate(order):
        offsets.setdefault(entry.offset, at)
    placed = [
        entry if entry.offset == at else replace(entry, offset=at, append_time_ms=times[at])
        for at, entry in enumerate(order)
    ]
    entries = {**log.entries, place: placed}
    for other in [place for place in entries if place[0] == EVENTS or ".device." in place[0]]:
        entries[other] = [_renamed(entry, partition, offsets) for entry in entries[other]]
    return RecordedLog(entries, known=dict(log.known))


def _renamed(entry: Entry, partition: int, offsets: dict[int, int]) -> Entry:
    """Returns an entry whose references into a partition follow what was moved there."""

    def reference(found: re.Match[bytes]) -> bytes:
        if stream_partition(found[1].decode()) != partition:
            return found[0]
        return b"%s@%d" % (found[1], offsets.get(int(found[2]), int(found[2])))

    def seen(found: re.Match[bytes]) -> bytes:
        return b'"seen":%d' % offsets.get(int(found[1]), int(found[1]))

    def source(found: re.Match[bytes]) -> bytes:
        if int(found[1]) != partition:
            return found[0]
        return found[0].removesuffix(found[2]) + b"%d" % offsets.get(int(found[2]), int(found[2]))

    headers, value = headers_of(entry), entry.value or b""
    cause = headers.get("ce_causationid") or b""
    changed = _SOURCE.sub(source, _REFERENCE.sub(reference, value))
    if headers.get("ce_type") != TaskAssigned.wire_type().encode() and entry.partition == partition:
        changed = _SEEN.sub(seen, changed)
    names = _REFERENCE.sub(reference, cause)
    if changed == value and names == cause:
        return entry
    return replace(with_headers(entry, ce_causationid=names or None), value=changed)


def decision_of(entries: Sequence[Entry], at: int) -> range:
    """Returns the places of the events of a decision, of which one is at a place."""
    headers = headers_of(entries[at])
    first = at - int(headers.get("ce_index") or b"0")
    return range(first, first + int(headers.get("ce_count") or b"1"))


def whole(entries: list[Entry], places: Sequence[int]) -> None:
    """Numbers the events of a decision anew."""
    for index, at in enumerate(places):
        count = len(places)
        entries[at] = with_headers(entries[at], ce_index=b"%d" % index, ce_count=b"%d" % count)


def gone(log: RecordedLog, partition: int, at: int) -> RecordedLog:
    """Returns the log as if one event was never written, neither alone nor in its decision."""
    entries = list(log.entries[EVENTS, partition])
    decision = decision_of(entries, at)
    del entries[at]
    whole(entries, decision[:-1])
    return moved(log, partition, entries)


def doubled(log: RecordedLog, partition: int, at: int) -> RecordedLog:
    """Returns the log with one event a second time, after its decision, as a decision of its own."""
    entries = list(log.entries[EVENTS, partition])
    alone = with_headers(entries[at], **dict.fromkeys(_DECISION))
    entries.insert(decision_of(entries, at).stop, alone)
    return moved(log, partition, entries)


def swapped(log: RecordedLog, partition: int, at: int) -> RecordedLog | None:
    """Returns the log with an event and the next one in each other's place, if one decision may have both."""
    entries = list(log.entries[EVENTS, partition])
    decision = decision_of(entries, at)
    if at + 1 == len(entries):
        return None
    if at + 1 not in decision and len(decision) + len(decision_of(entries, at + 1)) > 2:
        return None
    entries[at], entries[at + 1] = entries[at + 1], entries[at]
    if at + 1 in decision:
        whole(entries, decision)
    return moved(log, partition, entries)


def hole(log: RecordedLog, partition: int, at: int) -> RecordedLog:
    """Returns the log without one record, whose offset has none."""
    entries = list(log.entries[EVENTS, partition])
    del entries[at]
    return log.changed((EVENTS, partition), entries)


def field_paths(message: Message, body: dict[str, Any]) -> list[tuple[str, ...]]:
    """Returns the fields of an event; of one that is a model its own."""
    paths: list[tuple[str, ...]] = []
    for name in type(message).model_fields:
        inner = getattr(message, name)
        if isinstance(inner, BaseModel) and isinstance(body.get(name), dict):
            paths += [(name, each) for each in type(inner).model_fields if each in body[name]]
        else:
            paths.append((name,))
    return paths


def other_values(annotation: Any, value: Any, example: Any, rng: Random) -> Iterator[Any]:
    """Yields values that a field may have instead of the one that it has."""
    for kind in _kinds(annotation):
        if get_origin(kind) is Literal:
            yield from (each for each in get_args(kind) if each != value)
        elif isinstance(kind, type) and issubclass(kind, Enum):
            yield from (each.value for each in kind if each.value != value)
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
            yield value - 1
        case float():
            yield value + 0.125
        case str() if re.fullmatch("[0-9a-f]{64}", value):
            yield "0" * 64
        case str() if value:
            yield from (value + "x", value[:-1])
        case list() if value:
            yield from _other_lists(value, rng)
        case dict() if value:
            yield from _other_dicts(value, rng)
    if example not in (None, value):
        yield example


def _kinds(annotation: Any) -> Iterator[Any]:
    """Yields the types that an annotation allows."""
    if get_origin(annotation) in (Union, UnionType):
        for each in get_args(annotation):
            yield from _kinds(each)
    elif get_origin(annotation) is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif annotation is not NoneType:
        yield annotation


def _other_lists(value: list[Any], rng: Random) -> Iterator[Any]:
    at = rng.randrange(len(value))
    for other in other_values(None, value[at], None, rng):
        yield [*value[:at], other, *value[at + 1 :]]
    yield value[:-1]


def _other_dicts(value: dict[str, Any], rng: Random) -> Iterator[Any]:
    name = rng.choice(sorted(value))
    for other in other_values(None, value[name], None, rng):
        yield {**value, name: other}
    yield {each: inner for each, inner in value.items() if each != name}


def with_field(log: RecordedLog, entry: Entry, path: tuple[str, ...], rng: Random) -> RecordedLog | None:
    """Returns the log in which a field of an event has another value; None if it can have none."""
    record = log.decoded(entry)
    assert record is not None
    body = json.loads(entry.value or b"{}")
    example = json.loads(_EXAMPLES[record.message.wire_type()].model_dump_json())
    model: Any = record.message
    for name in path[:-1]:
        model, example = getattr(model, name), (example.get(name) or {})
    inner = body if len(path) == 1 else body[path[0]]
    name = path[-1]
    annotation = type(model).model_fields[name].annotation
    before = getattr(model, name)
    for value in other_values(annotation, inner.get(name), example.get(name), rng):
        changed = {**inner, name: value}
        whole_body = changed if len(path) == 1 else {**body, path[0]: changed}
        mutated = replace(entry, value=json.dumps(whole_body, separators=(",", ":")).encode())
        place = (entry.topic, entry.partition)
        entries = list(log.entries[place])
        entries[entry.offset] = mutated
        mutant = log.changed(place, entries)
        found = mutant.decoded(mutated)
        if found is None:
            continue
        after: Any = found.message
        for each in path:
            after = getattr(after, each)
        if after != before:
            return mutant
    return None


def occurrences(log: RecordedLog, applied: Callable[[Entry], bool]) -> dict[str, list[Entry]]:
    """Returns the events that have an effect, by the type of their message."""
    found: dict[str, list[Entry]] = defaultdict(list)
    for entry in log.events():
        record = log.decoded(entry)
        if record is not None and applied(entry):
            found[type(record.message).__name__].append(entry)
    return found


def paths_of(log: RecordedLog, entry: Entry) -> list[tuple[str, ...]]:
    """Returns the fields of an event that may be changed."""
    record = log.decoded(entry)
    assert record is not None
    return field_paths(record.message, json.loads(entry.value or b"{}"))


EDITS: Mapping[str, Callable[[RecordedLog, int, int], RecordedLog | None]] = {
    "gone": gone,
    "doubled": doubled,
    "swapped": swapped,
}
"""The edits of whole events, by name: each has the partition and the offset of an event."""
