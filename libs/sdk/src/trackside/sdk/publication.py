"""A command on its way: encoded, checked against the limits, placed, answered."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.contracts.codec import Draft, encode
from trackside.contracts.commands import CommandAccepted, CommandRefused, Source
from trackside.contracts.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.message import Command, Record
from trackside.contracts.refusals import Problem
from trackside.contracts.topics import MAX_COMMAND_BYTES
from trackside.eventlog.clock import now_ms, rfc3339
from trackside.eventlog.log import Outgoing
from trackside.sdk.errors import UnsendableError

RECORD_OVERHEAD_BYTES = 128
"""Room for what Kafka puts around a record: the batch's header, lengths, and deltas."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Where a command was published; its answer can't be before `events_from` in its stream's partition.

    `time_ms` is the log's time for it.
    """

    topic: str
    partition: int
    offset: int
    command_id: str
    stream_id: str
    events_from: int = 0
    time_ms: int = field(default=0, compare=False)

    @property
    def source(self) -> Source:
        """The place that the answer names."""
        return Source(topic=self.topic, partition=self.partition, offset=self.offset)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The command was accepted; `offset` is its answer's in the stream's partition.

    `time_ms` is the log's time for the answer, `source` who gave it.
    """

    command_id: str
    offset: int
    time_ms: int = field(default=0, compare=False)
    source: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a Ping: who gave it, and what it took, in ms.

    `published_ms` until the log had the command, `answered_ms` from there to the answer by the log's own
    clock, `whole_ms` until the answer was here.
    """

    source: str
    published_ms: float
    answered_ms: int
    whole_ms: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The command was refused: a code to act on, the place in its body, and a sentence for a person."""

    command_id: str
    offset: int
    code: str
    path: str
    message: str


def answered(publication: Publication, record: Record) -> Accepted | Refused | None:
    """Returns the answer to a publication if this record is it.

    The first answer in the log with the publication's place is the one that counts for every reader.
    """
    message = record.message
    if not isinstance(message, CommandAccepted | CommandRefused) or record.envelope.role != "dispatcher":
        return None
    if message.source != publication.source or record.envelope.stream != publication.stream_id:
        return None
    if isinstance(message, CommandAccepted):
        return Accepted(message.command_id, record.offset, record.append_time_ms, record.envelope.source)
    return Refused(message.command_id, record.offset, message.code, message.path, message.message)


def outgoing(
    command: Command | Mapping[str, object], stream_id: str, command_id: str, source: str, traceparent: str
) -> Outgoing:
    """Returns the record of a command, or raises UnsendableError.

    A mapping is a CloudEvent in structured form: its attributes are kept, missing ones are filled in.
    """
    _identified("$partitionkey", stream_id)
    _identified("$id", command_id)
    time = rfc3339(now_ms())
    if isinstance(command, Command):
        draft = Draft(command, command_id, source, stream_id, time, traceparent=traceparent)
        return within_limit(Outgoing(*encode(draft)))
    own = {"specversion": "1.0", "source": source, "time": time}
    attributes = {**own, **command, "id": command_id, "partitionkey": stream_id}
    headers = [("content-type", b"application/cloudevents+json")]
    if traceparent:
        headers.append(("traceparent", traceparent.encode()))
    return within_limit(Outgoing(stream_id.encode(), json.dumps(attributes).encode(), headers))


def _identified(path: str, text: str) -> None:
    if not is_identifier(text):
        message = f"{text!r} is not an identifier: expected {IDENTIFIER_RULE}"
        raise UnsendableError(Problem(code="bad_identifier", path=path, message=message))


def within_limit(record: Outgoing) -> Outgoing:
    """Returns a record that the commands topic takes, or raises UnsendableError."""
    headers = sum(len(name) + len(octets or b"") + 4 for name, octets in record.headers)
    size = len(record.key or b"") + len(record.value or b"") + headers + RECORD_OVERHEAD_BYTES
    if size > MAX_COMMAND_BYTES:
        message = f"the command takes {size:,} bytes, the limit is {MAX_COMMAND_BYTES:,}"
        raise UnsendableError(Problem(code="too_large", message=message))
    return record
