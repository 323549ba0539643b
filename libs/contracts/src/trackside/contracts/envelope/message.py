"""What a message is: its class, the envelope it travels in, and its place in the log."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from trackside.contracts.envelope.standing import Standing
from trackside.contracts.envelope.trusted_keys import Trust

Json = dict[str, Any]
MAX_SEQUENCE_DIGITS = 19
DISPATCHER = frozenset({"dispatcher"})
SCHEDULER = frozenset({"scheduler"})
WORKER = frozenset({"worker"})
SUMMARY_INDEXER = frozenset({"summary-indexer"})
SETUP = frozenset({"setup"})
"""Roles, as an event's `written_by` names them."""


class Message(BaseModel):
    """The body of a record: one pydantic model, JSON on the wire."""

    wire_version: ClassVar[int] = 1
    written_by: ClassVar[frozenset[str]] = frozenset()
    """The roles whose word counts in the log; nobody's, for a command."""
    encryptable: ClassVar[bool] = True
    """Whether it is encrypted in an encrypted stream."""

    @classmethod
    def wire_type(cls) -> str:
        """Returns the CloudEvents type: `trackside.task-assigned.v1`."""
        return _wire_type(cls)


@cache
def _wire_type(kind: type[Message]) -> str:
    return f"trackside.{kebab(kind.__name__)}.v{kind.wire_version}"


class Command(Message):
    """A wish of a publisher: it may be refused, and says nothing that it doesn't know."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Event(Message):
    """A fact: it can't be refused, and readers pass over fields they don't know."""

    model_config = ConfigDict(extra="ignore", frozen=True)


def is_absent(value: object) -> bool:
    """Returns whether an optional field has nothing to say and is left out: None, or empty."""
    return value is None or value == "" or value == {} or value == []


def kebab(name: str) -> str:
    """Turns a class name into kebab case: `TaskAssigned` into `task-assigned`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


@lru_cache(maxsize=1_024)
def _role(source: bytes) -> str:
    parts = source.decode("utf-8", "replace").split("/")
    return parts[1] if len(parts) == 3 and parts[0] == "trackside" else ""


@dataclass(slots=True)
class Envelope:
    """The CloudEvents attributes of a record; what each fold asks for is read once, the rest when asked for.

    `headers` maps Kafka header names (`ce_id`, `ce_type`, ...) to their bytes. `stream` is the stream it
    belongs to, `role` the service that wrote it (empty for a publisher from elsewhere), `decision_id` the
    decision it is part of (empty for a message that stands alone), `index` its place in that, from 0: -1 if
    it, or the decision's id, can't be read.
    """

    headers: Mapping[str, bytes]
    stream: str = field(init=False, compare=False, repr=False)
    role: str = field(init=False, compare=False, repr=False)
    decision_id: bytes = field(init=False, compare=False, repr=False)
    index: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Reads what every fold asks for."""
        headers = self.headers
        self.stream = headers.get("ce_partitionkey", b"").decode("utf-8", "replace")
        self.role = _role(headers.get("ce_source", b""))
        self.decision_id = decision = headers.get("ce_decisionid", b"")
        octets = headers.get("ce_index", b"0")
        readable = octets.isdigit() and len(octets) < 10 and decision.isascii()
        self.index = int(octets) if readable else -1

    def text(self, name: str) -> str:
        """Returns one header as text, empty if it is missing."""
        return self.headers.get(name, b"").decode("utf-8", "replace")

    @property
    def count(self) -> int:
        """How many messages its decision has; 1 if that can't be read."""
        octets = self.headers.get("ce_count", b"1")
        return int(octets) if octets.isdigit() and len(octets) < 10 else 1

    @property
    def id(self) -> str:
        """The message's id, unique for its source."""
        return self.text("ce_id")

    @property
    def type(self) -> str:
        """The wire type."""
        return self.text("ce_type")

    @property
    def source(self) -> str:
        """Who wrote it: `trackside/<role>/<instance>` for our own services."""
        return self.text("ce_source")

    @property
    def time(self) -> str:
        """When its writer says it happened, RFC 3339."""
        return self.text("ce_time")

    @property
    def sequence(self) -> int:
        """The number of the event among those of its worker's incarnation, from 1; 0 if it has none."""
        octets = self.headers.get("ce_sequence", b"")
        return int(octets) if octets.isdigit() and len(octets) < MAX_SEQUENCE_DIGITS else 0

    @property
    def causation_id(self) -> str:
        """The event that it rests on, as `<stream>@<offset>`; empty if it names none."""
        return self.text("ce_causationid")

    @property
    def traceparent(self) -> str:
        """The W3C trace context, empty if there is none."""
        return self.text("traceparent")


@dataclass(slots=True)
class Record:
    """A decoded message at its place in the log; `append_time_ms` is the log's own clock.

    `value` is the message as its bytes. `trust` are the keys that its place in the log trusts, None if there
    are none; `distrust` is why it is not trusted, once it was folded. `standing` is set by who lists records.
    """

    topic: str
    partition: int
    offset: int
    append_time_ms: int
    envelope: Envelope
    message: Message
    value: bytes = b""
    trust: Trust | None = None
    distrust: str = ""
    standing: Standing | None = None
