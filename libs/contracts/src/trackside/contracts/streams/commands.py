"""How commands enter the log and how they are answered."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json
from trackside.contracts.envelope.refusals import Problem

RULES = 1
"""The version of the guards that new streams are folded with."""


class Source(BaseModel):
    """Where a record was read: topic, partition, offset."""

    model_config = ConfigDict(frozen=True)
    topic: str
    partition: int
    offset: int


class Ping(Command):
    """Asks for an answer, and for nothing else."""


class CommandReceived(Event):
    """A command has entered its stream; `problem` is set when its body cannot be kept.

    `problems` are all that were found, at most 100, the first of them included. With the code `too_many` the
    publication is refused, and its command is decided when it is published again.

    `key_id` is the key that it was signed with, empty if signatures are not checked or it has none.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    command_type: str
    body: Json | None
    digest: str
    source: Source
    publisher: str
    rules: int
    problem: Problem | None = None
    key_id: str = ""
    problems: list[Problem] = Field(default_factory=list)


class CommandAccepted(Event):
    """A publication of a command was accepted; what follows from it is in the same decision."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    source: Source


class CommandRefused(Event):
    """A publication of a command was refused, for the first of its problems.

    `problems` are all that were found, at most 100, the first of them included; their texts may be shortened.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    source: Source
    code: str
    path: str
    message: str
    problems: list[Problem] = Field(default_factory=list)


class RecordDeadLettered(Event):
    """Bytes that could not be decoded: where they were, why, and their first 4 KiB."""

    source: Source
    code: str
    message: str
    reader: str
    sha256: str
    head_base64: str
