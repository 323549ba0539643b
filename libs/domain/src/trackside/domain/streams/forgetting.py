"""What stays of a stream that was forgotten: the same for who had its key and for who did not. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.contracts.envelope.message import DISPATCHER, Message, Record
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.streams.forgetting import ForgetStream, StreamForgotten
from trackside.contracts.trust.encryption import EncryptedRecord
from trackside.domain.streams.command import Commands, Publication, ReceivedCommand

_OF_COMMANDS: frozenset[type[Message]] = frozenset({CommandReceived, CommandAccepted, CommandRefused})
_TYPES_OF_COMMANDS = frozenset(
    kind.wire_type() for kind in (CommandReceived, CommandAccepted, CommandRefused)
)
FORGET = ForgetStream.wire_type()


@dataclass(frozen=True, slots=True)
class Totals:
    """What is known of a stream as a whole: of a forgotten one, all that is.

    `ended` is how many of its parts (`unit`: trials, tasks) have ended, `ends` the same by how they did, if
    that is known. Times are ms since 1970, 0: unknown.
    """

    status: str
    unit: str
    ended: int
    ends: Mapping[str, int]
    total: int | None
    started_ms: int
    ended_ms: int


@dataclass(slots=True)
class Forgotten:
    """What is known of a stream that was forgotten: see `Totals`."""

    offset: int
    forgotten_ms: int
    reason: str
    kind: str
    status: str
    unit: str
    ended: int
    total: int | None
    started_ms: int
    ended_ms: int
    ends: dict[str, int] = field(default_factory=dict)


def forgotten_by(event: StreamForgotten, record: Record) -> Forgotten:
    """Returns what an event leaves of its stream."""
    return Forgotten(
        record.offset,
        record.append_time_ms,
        event.reason,
        event.kind,
        event.status,
        event.unit,
        event.ended,
        event.total,
        event.started_ms,
        event.ended_ms,
        dict(event.ends),
    )


def forgetting_commands(event: StreamForgotten) -> Commands:
    """Returns the commands that asked for it: they are answered once the stream is forgotten."""
    commands: Commands = {}
    for each in event.commands:
        asked = commands.get(each.command_id)
        if asked is None:
            asked = ReceivedCommand(each.command_id, FORGET, None, each.digest, each.offset, "", [])
            commands[each.command_id] = asked
        asked.publications.append(Publication(each.source, each.digest, each.offset))
    return commands


def is_about_commands(record: Record) -> bool:
    """Returns whether a record is an event about a command, for a reader that can't read it too."""
    event = record.message
    if type(event) is EncryptedRecord:
        return event.encrypted_type in _TYPES_OF_COMMANDS and record.envelope.role in DISPATCHER
    return type(event) in _OF_COMMANDS and record.envelope.role in DISPATCHER


def may_begin(record: Record, event: EncryptedRecord) -> bool:
    """Returns whether a record that can't be read begins a stream: one with a command does."""
    return event.encrypted_type == CommandReceived.wire_type() and record.envelope.role in DISPATCHER


def forgotten_problem(stream_id: str) -> Problem:
    """Returns why a command for a forgotten stream is refused."""
    message = f"stream {stream_id} was forgotten, and its id stays taken; choose another id"
    return Problem(code="stream_forgotten", path="$partitionkey", message=message)


def without_content(stream_id: str, event: CommandReceived) -> CommandReceived:
    """Returns what the log gets of a command for a forgotten stream: no body, and no publisher."""
    if event.command_type == FORGET:
        return event
    problem = forgotten_problem(stream_id)
    return event.model_copy(update={"body": None, "publisher": "", "problem": problem, "problems": [problem]})
