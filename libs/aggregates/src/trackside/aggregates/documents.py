"""The published documents: a JSON Schema per message and an AsyncAPI 3 document of every topic."""

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from trackside.aggregates.registry import AGGREGATES, CODEC
from trackside.contracts.envelope.message import Command, Json, Message
from trackside.contracts.envelope.topics import Topic, Topics
from trackside.contracts.streams.keys import KEY_EVENTS
from trackside.contracts.wire import codec

SCHEMA_ID = "urn:trackside:schema:"
RECEIPT: Json = {
    "location": "$message.header#/ce_receiptto",
    "description": "A topic, allowed by the operator, for the answer: CommandAccepted or CommandRefused. "
    "Without it the answer is in the events alone.",
}


def events() -> tuple[type[Message], ...]:
    """Returns the types of messages in the log: of commands and tasks, then those of each aggregate."""
    return (*codec.EVENTS, *AGGREGATES.by_event)


def messages() -> tuple[type[Message], ...]:
    """Returns all types of messages."""
    return tuple(dict.fromkeys(kind for *_, kinds in channels() for kind in kinds))


def examples() -> dict[str, Message]:
    """Returns one example of each message, with every field in it, by wire type; services don't load them."""
    of_aggregates = (type(each).__module__.rpartition(".")[0] for each in AGGREGATES.types)
    return _examples_in(("trackside.contracts.wire", *of_aggregates))


@lru_cache(maxsize=2)
def _examples_in(folders: tuple[str, ...]) -> dict[str, Message]:
    found: dict[str, Json] = {}
    for folder in folders:
        found |= json.loads((resources.files(folder) / "examples.json").read_text("utf-8"))
    return {name: CODEC.message(name, json.dumps(value).encode()) for name, value in found.items()}


TopicMessages = tuple[str, str, Topic, Sequence[type[Message]]]
"""Its name, whether Trackside sends or receives on it, the topic, and the types of messages."""


def channels() -> list[TopicMessages]:
    """Returns all topics with their messages: those of no aggregate, then those of single aggregates."""
    topics = Topics()
    device = topics.device("{worker}", "{device}")
    found: list[TopicMessages] = [
        ("commands", "receive", topics.commands, AGGREGATES.commands),
        ("events", "send", topics.events, events()),
        ("fleet", "send", topics.fleet, (*codec.FLEET_EVENTS, *KEY_EVENTS)),
        ("heartbeats", "send", topics.heartbeats, codec.HEARTBEATS),
        ("device", "send", device, codec.DEVICE_COMMANDS),
        ("metrics", "send", topics.metrics, codec.METRICS),
        ("logs", "send", topics.logs, codec.LOGS),
        ("deadLetters", "send", topics.dead_letters, codec.DEAD_LETTERS),
        ("imports", "send", topics.imports, codec.IMPORTS),
    ]
    for each in AGGREGATES.types:
        for attribute, kinds in each.other_messages.items():
            action = "receive" if issubclass(kinds[0], Command) else "send"
            found.append((_camel_case(attribute), action, getattr(topics, attribute), kinds))
    return found


def _camel_case(attribute: str) -> str:
    first, *others = attribute.split("_")
    return first + "".join(word.title() for word in others)


def schema(kind: type[Message]) -> Json:
    """Returns the JSON Schema (2020-12) of one message as it is on the wire, with an example."""
    body = kind.model_json_schema(mode="validation" if issubclass(kind, Command) else "serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID + kind.wire_type(),
        **body,
        "examples": [examples()[kind.wire_type()].model_dump(mode="json")],
    }


def asyncapi() -> Json:
    """Returns the AsyncAPI 3.0 document of every channel, operation and message."""
    described_channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    described: dict[str, Any] = {}
    for name, action, topic, kinds in channels():
        described_channels[name] = _channel(topic, kinds)
        operations[f"{action}{name[0].upper()}{name[1:]}"] = {
            "action": action,
            "channel": {"$ref": f"#/channels/{name}"},
        }
        if topic == Topics().commands:
            operations["receiveCommands"]["reply"] = {"address": RECEIPT}
        described.update({kind.__name__: _message(kind) for kind in kinds})
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Trackside", "version": "1", "description": "Commands in, events out."},
        "defaultContentType": "application/json",
        "channels": described_channels,
        "operations": operations,
        "components": {"messages": described},
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
    """Returns every published file by its name, as the text that `trackside schemas` writes."""
    documents: dict[str, Json] = {f"{kind.wire_type()}.json": schema(kind) for kind in messages()}
    documents["asyncapi.json"] = asyncapi()
    return {name: json.dumps(body, indent=2, sort_keys=False) + "\n" for name, body in documents.items()}
