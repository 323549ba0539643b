"""Commands as records, checked against the limits; where they were published, and their answers."""

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.message import Command, Record
from trackside.contracts.envelope.redaction import may_have_secret
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.envelope.topics import MAX_COMMAND_BYTES
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused, Source
from trackside.contracts.wire.codec import Draft, encode
from trackside.contracts.wire.ingress import SUSPECTED, read_command
from trackside.eventlog.clock import now_ms, rfc3339
from trackside.eventlog.log import Outgoing
from trackside.sdk.errors import EncryptedStreamError, RefusedError, UnsendableError
from trackside.telemetry import context
from trackside.telemetry.spans import foreign_span

ANSWER_TYPES = frozenset({CommandAccepted.wire_type(), CommandRefused.wire_type()})
RECORD_OVERHEAD_BYTES = 128
"""Reserved for what Kafka adds to a record: the header of its batch, lengths and deltas."""


@dataclass(frozen=True, slots=True)
class PublishedCommand:
    """A command in the log; its answer is at `events_from` or later in the partition of its stream.

    `time_ms` is its append time.
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
        """The position in the log, which the answer refers to."""
        return Source(topic=self.topic, partition=self.partition, offset=self.offset)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The command was accepted; `offset` is that of the answer in the partition of the stream.

    `time_ms` is the append time of the answer, `source` the service that answered.
    """

    command_id: str
    offset: int
    time_ms: int = field(default=0, compare=False)
    source: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Pong:
    """The answer to a Ping: the service that answered, and how long it took, in ms.

    `published_ms` until the log had acknowledged the command, `answered_ms` from there to the answer by the
    clock of the log, `whole_ms` until the answer was received.
    """

    source: str
    published_ms: float
    answered_ms: int
    whole_ms: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The command was refused: a code for programs, the path in its body, and a message for people.

    `problems` are all that were found, the first included; none if an older release answered.
    """

    command_id: str
    offset: int
    code: str
    path: str
    message: str
    problems: tuple[Problem, ...] = ()

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """All problems, the first one with its whole message."""
        retry_at_ms = self.problems[0].retry_at_ms if self.problems else None
        first = Problem(code=self.code, path=self.path, message=self.message, retry_at_ms=retry_at_ms)
        return (first, *self.problems[1:])


def raise_if_refused(publication: PublishedCommand, answer: Accepted | Refused) -> None:
    """Raises RefusedError with all problems if the command was refused."""
    if isinstance(answer, Refused):
        raise RefusedError(publication.stream_id, *answer.all_problems)


def answer_in(publication: PublishedCommand, record: Record) -> Accepted | Refused:
    """Returns the answer to a published command that a record has; raises EncryptedStreamError without a key.

    Only the first answer in the log that refers to the command's position counts, for every reader.
    """
    message = record.message
    if isinstance(message, CommandAccepted):
        return Accepted(message.command_id, record.offset, record.append_time_ms, record.envelope.source)
    if not isinstance(message, CommandRefused):
        raise EncryptedStreamError(no_key(publication.stream_id))
    return Refused(
        message.command_id,
        record.offset,
        message.code,
        message.path,
        message.message,
        tuple(message.problems),
    )


def span_of_publication(
    command: Command | Mapping[str, object], traceparent: str | None, attributes: dict[str, str | int]
) -> AbstractContextManager[str]:
    """Opens the span of a publication, and yields the `traceparent` that its record carries.

    It is below the given one, one in the command, or the span that is open here, also one of OpenTelemetry's
    own; below none it is the root of a trace. A program that exports no spans hands the parent on: what it
    named itself would be missing in the trace.
    """
    given = command.get("traceparent") if isinstance(command, Mapping) else None
    parent = traceparent or (given if isinstance(given, str) else None) or context.current() or foreign_span()
    if not context.is_recording(parent):
        return nullcontext(parent or "")
    return context.start(f"send {attributes['messaging.destination.name']}", parent, attributes, "producer")


def no_key(stream_id: str) -> str:
    """Returns what is needed to read an encrypted stream."""
    return (
        f"stream {stream_id} is encrypted, and this client does not have its key: it was forgotten, or the "
        "client was opened without `keys`, or its user of Postgres may not read the schema trackside_keys"
    )


_ENCRYPTED = [("ce_encrypted", b"true")]


def command_record(
    command: Command | Mapping[str, object],
    stream_id: str,
    command_id: str,
    source: str,
    traceparent: str,
    encrypted: bool = False,
) -> Outgoing:
    """Returns the record of a command, or raises UnsendableError.

    A mapping is a structured CloudEvent: its attributes are kept, missing ones are added. The events of a
    stream that an `encrypted` command begins are encrypted.
    """
    _check_identifier("$partitionkey", stream_id)
    _check_identifier("$id", command_id)
    time = rfc3339(now_ms())
    if isinstance(command, Command):
        draft = Draft(command, command_id, source, stream_id, time, traceparent=traceparent)
        key, value, headers = encode(draft)
        return _checked(Outgoing(key, value, [*headers, *_ENCRYPTED] if encrypted else headers))
    own = {"specversion": "1.0", "source": source, "time": time}
    attributes = {**own, **command, "id": command_id, "partitionkey": stream_id}
    if encrypted:
        attributes["encrypted"] = True
    headers = [("content-type", b"application/cloudevents+json")]
    if traceparent:
        headers.append(("traceparent", traceparent.encode()))
    return _checked(Outgoing(stream_id.encode(), json.dumps(attributes).encode(), headers))


def _check_identifier(path: str, text: str) -> None:
    if not is_identifier(text):
        message = f"{text!r} is not an identifier: expected {IDENTIFIER_RULE}"
        raise UnsendableError(Problem(code="bad_identifier", path=path, message=message))


def _checked(record: Outgoing) -> Outgoing:
    """Returns the record, or raises UnsendableError: it is too large, or would put a secret into Kafka."""
    check_size(record)
    if may_have_secret(
        b"\n".join(octets or b"" for octets in (record.value, *dict(record.headers).values()))
    ):
        headers = {name: octets for name, octets in record.headers if octets is not None}
        found = [
            each
            for each in read_command(headers, record.key, record.value).problems
            if each.code == SUSPECTED
        ]
        if found:
            raise UnsendableError(*found)
    return record


def check_size(record: Outgoing) -> Outgoing:
    """Returns the record if it is within the limit of the commands topic; else raises UnsendableError."""
    headers = sum(len(name) + len(octets or b"") + 4 for name, octets in record.headers)
    size = len(record.key or b"") + len(record.value or b"") + headers + RECORD_OVERHEAD_BYTES
    if size > MAX_COMMAND_BYTES:
        message = f"the command takes {size:,} bytes, the limit is {MAX_COMMAND_BYTES:,}"
        raise UnsendableError(Problem(code="too_large", message=message))
    return record
