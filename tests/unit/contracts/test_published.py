"""A message that was published stays readable: each kind of break is seen, and none is there.

`TRACKSIDE_WRITE_PUBLISHED=1 pytest tests/unit/contracts/test_published.py` publishes what has been added.
"""

import json
import os
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tests.contract.schema_compatibility import PUBLISHED, breaking_changes, published_schema, schema_text
from trackside.aggregates import documents
from trackside.contracts.envelope.message import Command, Event, Message
from trackside.contracts.wire import codec

KINDS = {kind.wire_type(): kind for kind in documents.messages()}


def published() -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(PUBLISHED.glob("*.json"))}


def test_every_published_message_is_still_read() -> None:
    gone = published().keys() - KINDS.keys() - codec.UPCASTERS.keys()
    assert not gone, "a published version is read for ever: keep its class, or an upcaster of it"
    found = [
        f"{wire}: {broken}"
        for wire, old in published().items()
        if wire in KINDS
        for broken in breaking_changes(old, published_schema(KINDS[wire]))
    ]
    assert not found, "make it a new version of the message, with an upcaster from this one"
    if os.environ.get("TRACKSIDE_WRITE_PUBLISHED"):
        PUBLISHED.mkdir(exist_ok=True)
        for wire, kind in KINDS.items():
            (PUBLISHED / f"{wire}.json").write_text(schema_text(published_schema(kind)), "utf-8")
    assert published(), "nothing is published"


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Pause(_Spec):
    """A part of the command below."""

    seconds: float = Field(default=1.0, ge=0, le=10)
    inner: "list[Pause]" = Field(default=[])


class Play(Command):
    """A command as it was published."""

    song: str = Field(max_length=20)
    volume: int | None = Field(default=5, ge=0, le=9)
    mode: Literal["once", "loop"] = "once"
    pause: Pause = Pause()
    tags: dict[str, str] = Field(default={})
    pauses: list[Pause] = Field(default=[])


OLD = published_schema(Play)


def with_fields(**fields: Any) -> dict[str, Any]:
    """The command with other fields: those named change, None leaves one out."""
    known: dict[str, Any] = {name: (field.annotation, field) for name, field in Play.model_fields.items()}
    chosen = {name: field for name, field in (known | fields).items() if field is not None}
    made: dict[str, Any] = {"__annotations__": {name: kind for name, (kind, _) in chosen.items()}}
    made |= {name: default for name, (_, default) in chosen.items() if default is not ...}
    made["__module__"] = __name__
    return published_schema(type("Play", (Command,), made))


def part(**fields: Any) -> tuple[Any, Any]:
    made = {"__annotations__": {name: kind for name, (kind, _) in fields.items()}, "__module__": __name__}
    made |= {name: default for name, (_, default) in fields.items() if default is not ...}
    kind = type("Pause", (_Spec,), made)
    return kind, Field(default_factory=kind)


LESS: list[tuple[dict[str, Any], str]] = [
    ({"volume": None}, "$.volume: removed field"),
    ({"artist": (str, ...)}, "$.artist: new required field"),
    ({"volume": (int, ...)}, "$.volume: new required field"),
    ({"volume": (int, Field(default=5, ge=0, le=9))}, "narrowed type: null"),
    ({"volume": (str | None, None)}, "narrowed type: integer"),
    ({"song": (str, Field(max_length=10))}, "maxLength was 20"),
    ({"song": (str, Field(max_length=20, min_length=1))}, "minLength"),
    ({"song": (str, Field(max_length=20, pattern="a"))}, "pattern was not"),
    ({"volume": (int | None, Field(5, ge=1, le=9))}, "minimum was 0"),
    ({"volume": (int | None, Field(5, ge=0, lt=9))}, "exclusiveMaximum"),
    ({"mode": (Literal["once"], "once")}, "removed value 'loop'"),
    ({"song": (Literal["hello"], ...)}, "now only ['hello']"),
    ({"mode": (Literal["once", "loop"], "loop")}, "$.mode: changed default"),
    ({"tags": (dict[str, int], {})}, "$.tags.*: narrowed type"),
    ({"tags": (list[str], [])}, "$.tags: narrowed type"),
    ({"pauses": (list[float], [])}, "$.pauses[]: narrowed type"),
    ({"pause": part(inner=(list[int], []))}, "$.pause.seconds: removed field"),
    ({"pause": part(seconds=(float, 1.0), inner=(list[int], []))}, "$.pause.inner[]"),
]
MORE: list[dict[str, Any]] = [
    {"artist": (str, "")},
    {"song": (str, "hello")},
    {"song": (str | int, ...)},
    {"song": (Any, ...)},
    {"song": (str, Field(max_length=30))},
    {"volume": (float | None, 5)},
    {"mode": (Literal["once", "loop", "shuffle"], "once")},
    {"mode": (str, "once")},
    {"pauses": (list[Pause | float], [])},
    {"pause": part(seconds=(float, 1.0), inner=(list[Any], []), fade=(bool, True))},
]


def test_what_takes_away_is_a_break_and_is_named_and_what_adds_is_none() -> None:
    for changed, named in LESS:
        found = breaking_changes(OLD, with_fields(**changed))
        assert any(named in broken for broken in found), (named, found)
    assert [changed for changed in MORE if breaking_changes(OLD, with_fields(**changed))] == []


def test_fields_of_events_are_not_taken_away_either() -> None:
    class Played(Event):
        song: str
        seconds: float = 0.0

    class Fewer(Message):
        song: str

    changes = breaking_changes(published_schema(Played), published_schema(Fewer))
    assert changes == ["$.seconds: removed field"]


def test_a_form_that_holds_itself_is_compared_to_its_end() -> None:
    changed = json.loads(json.dumps(OLD))
    assert breaking_changes(OLD, changed) == []
    changed["$defs"]["Pause"]["properties"]["inner"]["maxItems"] = 3
    assert set(breaking_changes(OLD, changed)) == {
        f"{path}.inner: narrowed type: maxItems was not there, is 3" for path in ("$.pause", "$.pauses[]")
    }
