"""The wire form of every message, as committed: a change of it shows here as a diff.

`TRACKSIDE_WRITE_GOLDEN=1 pytest tests/contract/test_messages.py` writes the files anew; review what changed.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.commands import command_of
from trackside.aggregates import documents
from trackside.aggregates.registry import AGGREGATES, CODEC
from trackside.contracts.envelope.message import Message
from trackside.contracts.wire.codec import EVENTS, FLEET_EVENTS, UPCASTERS, Draft, encode

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = documents.examples()
NUMBERED = {kind for kind in (*EVENTS, *FLEET_EVENTS) if "incarnation" in kind.model_fields}
"""The events that have a number if a worker writes them."""
WIRE_TYPES = sorted(kind.wire_type() for kind in documents.messages())
OF_FEW_TASKS = {"resume", "keep_checkpoints", "checkpoint_grace_s", "service", "preemptible", "credentials"}
"""Fields that are left out where they have their default, as in the examples."""
OBJECTS = ("parameters", "body", "config", "inputs")
"""Fields that are objects of any values."""
NEWER: dict[str, Any] = {"inputs": {}, "checkpoint": None, "step_limit": None}
"""Fields that the older version of a task didn't have."""


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


def decoded(record: Mapping[str, Any]) -> tuple[Message, tuple[str, str, int]]:
    """Returns the message of a committed record, and what its envelope says."""
    envelope = CODEC.envelope((name, text.encode()) for name, text in record["headers"].items())
    message = CODEC.decode(envelope, json.dumps(record["value"]).encode())
    return message, (envelope.type, envelope.stream, envelope.index)


def test_there_is_an_example_and_a_file_of_every_message_and_of_nothing_else() -> None:
    assert sorted(EXAMPLES) == WIRE_TYPES
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == WIRE_TYPES


def test_messages_are_written_as_they_are_committed_and_still_mean_the_same() -> None:
    wrong = []
    for wire_type, example in EXAMPLES.items():
        text = golden(wire_type)
        record = json.loads(text)
        if text != written(wire_type):
            wrong.append(f"{wire_type} is written in another way")
        if decoded(record) != (example, (wire_type, record["key"], 1)):
            wrong.append(f"{wire_type} is read as something else")
        fields = type(example).model_fields.keys()
        if record["value"].keys() != fields - (OF_FEW_TASKS if "retry" in fields else set()):
            wrong.append(f"the example of {wire_type} lacks a field")
    assert wrong == []


def test_messages_of_older_versions_mean_what_the_current_ones_do() -> None:
    for older in sorted(UPCASTERS):
        message, (wire_type, _, _) = decoded(
            json.loads((GOLDEN / "older" / f"{older}.json").read_text("utf-8"))
        )
        assert wire_type == older
        assert message == EXAMPLES[message.wire_type()].model_copy(update=NEWER), older


def test_published_schemas_show_examples_that_they_allow() -> None:
    files, wrong = documents.files(), []
    for wire_type in WIRE_TYPES:
        schema = json.loads(files[f"{wire_type}.json"])
        Draft202012Validator.check_schema(schema)
        [example] = schema["examples"]
        wrong += [f"{wire_type}: {each}" for each in Draft202012Validator(schema).iter_errors(example)]
        if example != json.loads(golden(wire_type))["value"]:
            wrong.append(f"{wire_type} has another example")
    assert wrong == []


def test_what_the_schema_of_a_command_refuses_we_refuse_too() -> None:
    for kind in AGGREGATES.commands:
        validator = Draft202012Validator(documents.schema(kind))
        value: dict[str, Any] = json.loads(golden(kind.wire_type()))["value"]
        assert isinstance(command_of(kind.wire_type(), value), kind)
        for name in value:
            # Parameters are an object of any values, so another type is what they don't expect.
            other: Any = "text" if name in OBJECTS else {"not": ["what", "is", "expected"]}
            bad = {**value, name: other}
            assert not validator.is_valid(bad), (kind, name)
            assert not isinstance(command_of(kind.wire_type(), bad), kind), (kind, name)
        assert not validator.is_valid({**value, "unknown": 1}), kind
