"""The wire form of every message, as committed: a change of it shows here as a diff.

`TRACKSIDE_WRITE_GOLDEN=1 pytest tests/contract/test_messages.py` writes the files anew; review what changed.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.commands import command_of
from trackside.aggregates import documents
from trackside.aggregates.registry import AGGREGATES, CODEC
from trackside.contracts.codec import EVENTS, FLEET_EVENTS, UPCASTERS, Draft, encode
from trackside.contracts.message import Command, Message

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = documents.examples()
NUMBERED = {kind for kind in (*EVENTS, *FLEET_EVENTS) if "incarnation" in kind.model_fields}
"""The events that have a number if a worker writes them."""
WIRE_TYPES = sorted(kind.wire_type() for kind in documents.messages())


def draft(message: Message) -> Draft:
    """Returns an example the envelope that its writer would, with every attribute set."""
    role = next(iter(sorted(getattr(message, "written_by", ()))), "dispatcher")
    numbered = role == "worker" and type(message) in NUMBERED
    return Draft(
        message=message,
        id="5f0c1d.1",
        source=f"trackside/{role}/1",
        stream="digits-1",
        time="2026-01-31T12:00:00.123Z",
        subject="digits-1.7",
        causation_id="5f0c1c.0",
        correlation_id="digits-1",
        decision_id="5f0c1d",
        index=1,
        count=2,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        sequence=42 if numbered else 0,
    )


def written(wire_type: str) -> str:
    key, value, headers = encode(draft(EXAMPLES[wire_type]))
    record = {
        "key": key.decode(),
        "headers": {name: octets.decode() for name, octets in headers},
        "value": json.loads(value),
    }
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def golden(wire_type: str) -> str:
    path = GOLDEN / f"{wire_type}.json"
    if os.environ.get("TRACKSIDE_WRITE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(written(wire_type), "utf-8")
    assert path.is_file(), f"no golden file of {wire_type}: write it and review it"
    return path.read_text("utf-8")


def test_there_is_an_example_and_a_file_of_every_message_and_of_nothing_else() -> None:
    assert sorted(EXAMPLES) == WIRE_TYPES
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == WIRE_TYPES


@pytest.mark.parametrize("wire_type", WIRE_TYPES)
def test_a_message_is_written_as_it_is_committed(wire_type: str) -> None:
    assert golden(wire_type) == written(wire_type)


@pytest.mark.parametrize("wire_type", WIRE_TYPES)
def test_a_committed_message_still_means_the_same(wire_type: str) -> None:
    record: dict[str, Any] = json.loads(golden(wire_type))
    envelope = CODEC.envelope((name, text.encode()) for name, text in record["headers"].items())
    assert CODEC.decode(envelope, json.dumps(record["value"]).encode()) == EXAMPLES[wire_type]
    assert (envelope.type, envelope.stream, envelope.index) == (wire_type, record["key"], 1)


OF_FEW_TASKS = {"resume", "keep_checkpoints", "checkpoint_grace_s", "service", "preemptible", "credentials"}
"""Fields that are left out where they have their default, as in the examples."""
OBJECTS = ("parameters", "body", "config", "inputs")
"""Fields that are objects of any values."""
NEWER: dict[str, Any] = {"inputs": {}, "checkpoint": None, "step_limit": None}
"""Fields that the older version of a task didn't have."""


@pytest.mark.parametrize("older", sorted(UPCASTERS))
def test_a_message_of_an_older_version_means_what_the_current_one_does(older: str) -> None:
    record: dict[str, Any] = json.loads((GOLDEN / "older" / f"{older}.json").read_text("utf-8"))
    envelope = CODEC.envelope((name, text.encode()) for name, text in record["headers"].items())
    assert envelope.type == older
    message = CODEC.decode(envelope, json.dumps(record["value"]).encode())
    assert message == EXAMPLES[message.wire_type()].model_copy(update=NEWER)


@pytest.mark.parametrize("wire_type", WIRE_TYPES)
def test_every_field_of_a_message_is_in_its_example(wire_type: str) -> None:
    value: dict[str, Any] = json.loads(golden(wire_type))["value"]
    fields = type(EXAMPLES[wire_type]).model_fields.keys()
    assert value.keys() == fields - (OF_FEW_TASKS if "retry" in fields else set())


@pytest.mark.parametrize("wire_type", WIRE_TYPES)
def test_a_published_schema_shows_an_example_that_it_allows(wire_type: str) -> None:
    schema = json.loads(documents.files()[f"{wire_type}.json"])
    Draft202012Validator.check_schema(schema)
    [example] = schema["examples"]
    Draft202012Validator(schema).validate(example)
    assert example == json.loads(golden(wire_type))["value"]


@pytest.mark.parametrize("kind", AGGREGATES.commands, ids=lambda kind: kind.__name__)
def test_what_the_schema_of_a_command_refuses_we_refuse_too(kind: type[Command]) -> None:
    validator = Draft202012Validator(documents.schema(kind))
    value: dict[str, Any] = json.loads(golden(kind.wire_type()))["value"]
    assert isinstance(command_of(kind.wire_type(), value), kind)
    for name in value:
        # Parameters are an object of any values, so another type is what they don't expect.
        other: Any = "text" if name in OBJECTS else {"not": ["what", "is", "expected"]}
        bad = {**value, name: other}
        assert not validator.is_valid(bad)
        assert not isinstance(command_of(kind.wire_type(), bad), kind)
    assert not validator.is_valid({**value, "unknown": 1})
