"""Publishes the commands of written histories, so that each CommandReceived names a record that is there."""

import json
from dataclasses import replace
from weakref import WeakKeyDictionary

from trackside.contracts.envelope.topics import Topics
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.wire.ingress import digest_of
from trackside.eventlog.log import Log, Outgoing

Identity = tuple[str, str, int]
"""Stream, command, and the offset that a test gives its publication."""
OFFSETS: WeakKeyDictionary[Log, dict[Identity, int]] = WeakKeyDictionary()
"""The offsets of published commands in a log."""
RECEIVED = CommandReceived.wire_type().encode()
ANSWERS = {kind.wire_type().encode() for kind in (CommandAccepted, CommandRefused)}


async def with_publication(log: Log, topics: Topics, stream: str, record: Outgoing) -> Outgoing:
    """Returns an event with the place of its command, which is published if it is received with it."""
    kind = dict(record.headers).get("ce_type", b"")
    if kind != RECEIVED and kind not in ANSWERS:
        return record
    body = json.loads(record.value or b"{}")
    offsets = OFFSETS.setdefault(log, {})
    identity = (stream, body["command_id"], body["source"]["offset"])
    if kind == RECEIVED:
        body["digest"] = digest_of(body["command_type"], body["body"])
        if identity not in offsets:
            offsets[identity] = await _publish(log, topics, stream, body)
    if identity in offsets:
        body["source"] = {"topic": topics.commands.name, "partition": 0, "offset": offsets[identity]}
    return replace(record, value=json.dumps(body).encode())


async def _publish(log: Log, topics: Topics, stream: str, received: dict[str, object]) -> int:
    said = {"id": "command_id", "type": "command_type", "source": "publisher"}
    attributes = {"ce_specversion": "1.0", "ce_partitionkey": stream}
    attributes |= {f"ce_{name}": str(received[field]) for name, field in said.items()}
    headers = [(name, value.encode()) for name, value in attributes.items()]
    value = json.dumps(received["body"]).encode()
    return (await log.publish(topics.commands.name, 0, Outgoing(stream.encode(), value, headers))).offset
