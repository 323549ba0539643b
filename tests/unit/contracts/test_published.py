"""A message that was published stays readable: each kind of break is seen, and none is there.

`TRACKSIDE_WRITE_PUBLISHED=1 pytest tests/unit/contracts/test_published.py` publishes what has been added.
"""

import json
import os
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from tests.contract.schema_compatibility import PUBLISHED, breaking_changes, published_schema, schema_text
from trackside.aggregates import documents
from trackside.contracts import codec
from trackside.contracts.message import Command, Event, Message

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
    made: dict[str, Any] = {
        "__annotations__": {name: kind for name, (kind, _) in chosen.items()},
        "__module__": __name__,
        **{name: default for name, (_, default) in chosen.items() if default is not ...},
    }
    return published_schema(type("Play", (Command,), made))


def part(**fields: Any) -> tuple[Any, Any]:
    """A `pause` with other fields."""
    made = {"__annotations__": {name: kind for name, (kind, _) in fields.items()}, "__module__": __name__}
    made |= {name: default for name, (_, default) in fields.items() if default is not ...}
    kind = type("Pause", (_Spec,), made)
    return kind, Field(default_factory=kind)


def test_a_message_is_compatible_with_itself() -> None:
    assert breaking_changes(OLD, OLD) == []
    assert breaking_changes(OLD, with_fields()) == []
    assert all(
        breaking_changes(published_schema(kind), published_schema(kind)) == []
        for kind in documents.messages()
    )


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        pytest.param({"volume": None}, "$.volume: removed field", id="removed field"),
        pytest.param({"artist": (str, ...)}, "$.artist: new required field", id="new required field"),
        pytest.param({"volume": (int, ...)}, "$.volume: new required field", id="no default any more"),
        pytest.param({"volume": (int, Field(default=5, ge=0, le=9))}, "narrowed type: null", id="no null"),
        pytest.param({"volume": (str | None, None)}, "narrowed type: integer", id="another type"),
        pytest.param({"song": (str, Field(max_length=10))}, "maxLength was 20", id="shorter"),
        pytest.param({"song": (str, Field(max_length=20, min_length=1))}, "minLength", id="not empty"),
        pytest.param({"song": (str, Field(max_length=20, pattern="a"))}, "pattern was not", id="a pattern"),
        pytest.param({"volume": (int | None, Field(5, ge=1, le=9))}, "minimum was 0", id="more at least"),
        pytest.param({"volume": (int | None, Field(5, ge=0, lt=9))}, "exclusiveMaximum", id="lower most"),
        pytest.param({"mode": (Literal["once"], "once")}, "removed value 'loop'", id="removed value"),
        pytest.param({"song": (Literal["hello"], ...)}, "now only ['hello']", id="only one text"),
        pytest.param({"mode": (Literal["once", "loop"], "loop")}, "$.mode: changed default", id="default"),
        pytest.param({"tags": (dict[str, int], {})}, "$.tags.*: narrowed type", id="values of an object"),
        pytest.param({"tags": (list[str], [])}, "$.tags: narrowed type", id="list for object"),
        pytest.param({"pauses": (list[float], [])}, "$.pauses[]: narrowed type", id="items of a list"),
        pytest.param({"pause": part(inner=(list[int], []))}, "$.pause.seconds: removed field", id="within"),
        pytest.param(
            {"pause": part(seconds=(float, 1.0), inner=(list[int], []))}, "$.pause.inner[]", id="deep within"
        ),
    ],
)
def test_what_takes_away_is_a_break_and_is_named(changed: dict[str, Any], named: str) -> None:
    found = breaking_changes(OLD, with_fields(**changed))
    assert any(named in broken for broken in found), found


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"artist": (str, "")}, id="new field with a default"),
        pytest.param({"song": (str, "hello")}, id="required no more"),
        pytest.param({"song": (str | int, ...)}, id="another type besides"),
        pytest.param({"song": (Any, ...)}, id="anything"),
        pytest.param({"song": (str, Field(max_length=30))}, id="longer"),
        pytest.param({"volume": (float | None, 5)}, id="fractions too"),
        pytest.param({"mode": (Literal["once", "loop", "shuffle"], "once")}, id="new value"),
        pytest.param({"mode": (str, "once")}, id="any text"),
        pytest.param({"pauses": (list[Pause | float], [])}, id="other items besides"),
        pytest.param(
            {"pause": part(seconds=(float, 1.0), inner=(list[Any], []), fade=(bool, True))}, id="within"
        ),
    ],
)
def test_what_adds_is_no_break(changed: dict[str, Any]) -> None:
    assert breaking_changes(OLD, with_fields(**changed)) == []


def test_fields_of_events_are_not_taken_away_either() -> None:
    class Played(Event):
        """An event as it was published."""

        song: str
        seconds: float = 0.0

    old = published_schema(Played)

    class Fewer(Message):
        """The same without a field."""

        song: str

    assert breaking_changes(old, published_schema(Fewer)) == ["$.seconds: removed field"]


def test_a_form_that_holds_itself_is_compared_to_its_end() -> None:
    changed = json.loads(json.dumps(OLD))
    changed["$defs"]["Pause"]["properties"]["inner"]["maxItems"] = 3
    assert set(breaking_changes(OLD, changed)) == {
        f"{path}.inner: narrowed type: maxItems was not there, is 3" for path in ("$.pause", "$.pauses[]")
    }
