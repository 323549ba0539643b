"""The published documents: a JSON Schema per message and an AsyncAPI 3 document of every topic."""

import json
from collections.abc import Iterable
from typing import Any

from trackside.contracts import codec
from trackside.contracts.examples import EXAMPLES
from trackside.contracts.message import Command, Json, Message
from trackside.contracts.topics import Topic, Topics

SCHEMA_ID = "urn:trackside:schema:"
RECEIPT: Json = {
    "location": "$message.header#/ce_receiptto",
    "description": "A topic, allowed by the operator, for the answer: CommandAccepted or CommandRefused. "
    "Without it the answer is in the events alone.",
}


def _channels() -> list[tuple[str, str, Topic, tuple[type[Message], ...]]]:
    topics = Topics()
    device = topics.device("{worker}", "{device}")
    return [
        ("commands", "receive", topics.commands, codec.COMMANDS),
        ("events", "send", topics.events, codec.EVENTS),
        ("fleet", "send", topics.fleet, codec.FLEET_EVENTS),
        ("heartbeats", "send", topics.heartbeats, codec.HEARTBEATS),
        ("device", "send", device, codec.DEVICE_COMMANDS),
        ("metrics", "send", topics.metrics, codec.METRICS),
        ("logs", "send", topics.logs, codec.LOGS),
        ("deadLetters", "send", topics.dead_letters, codec.DEAD_LETTERS),
        ("imports", "send", topics.imports, codec.IMPORTS),
        ("suggestionRequests", "send", topics.suggestion_requests, codec.SUGGESTION_REQUESTS),
        ("suggestions", "receive", topics.suggestions, codec.SUGGESTIONS),
        ("assessmentRequests", "send", topics.assessment_requests, codec.ASSESSMENT_REQUESTS),
        ("assessments", "receive", topics.assessments, codec.ASSESSMENTS),
    ]


def schema(kind: type[Message]) -> Json:
    """Gives the JSON Schema (2020-12) of one message as it is on the wire, with an example."""
    body = kind.model_json_schema(mode="validation" if issubclass(kind, Command) else "serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID + kind.wire_type(),
        **body,
        "examples": [EXAMPLES[kind.wire_type()].model_dump(mode="json")],
    }


def asyncapi() -> Json:
    """Gives the AsyncAPI 3.0 document of every channel, operation and message."""
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    for name, action, topic, kinds in _channels():
        channels[name] = _channel(topic, kinds)
        operations[f"{action}{name[0].upper()}{name[1:]}"] = {
            "action": action,
            "channel": {"$ref": f"#/channels/{name}"},
        }
        if topic == Topics().commands:
            operations["receiveCommands"]["reply"] = {"address": RECEIPT}
        messages.update({kind.__name__: _message(kind) for kind in kinds})
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Trackside", "version": "1", "description": "Commands in, events out."},
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages},
    }


def _channel(topic: Topic, kinds: Iterable[type[Message]]) -> Json:
    channel: Json = {
        "address": topic.name,
        "description": f"{topic.what}, keyed by {topic.keyed_by}",
        "messages": {kind.__name__: {"$ref": f"#/components/messages/{kind.__name__}"} for kind in kinds},
        "bindings": {"kafka": {"partitions": topic.partitions, "bindingVersion": "0.5.0"}},
    }
    if "{worker}" in topic.name:
        channel["parameters"] = {
            "worker": {"description": "the worker's id"},
            "device": {"description": "the device's id"},
        }
    return channel


def _message(kind: type[Message]) -> Json:
    return {
        "name": kind.wire_type(),
        "title": kind.__name__,
        "summary": (kind.__doc__ or "").strip().splitlines()[0],
        "contentType": "application/json",
        "payload": {
            "schemaFormat": "application/schema+json;version=draft-2020-12",
            "schema": {"$ref": f"./{kind.wire_type()}.json"},
        },
    }


def files() -> dict[str, str]:
    """Gives every published file by its name, as the text that `trackside schemas` writes."""
    documents: dict[str, Json] = {f"{kind.wire_type()}.json": schema(kind) for kind in codec.MESSAGES}
    documents["asyncapi.json"] = asyncapi()
    return {name: json.dumps(body, indent=2, sort_keys=False) + "\n" for name, body in documents.items()}
