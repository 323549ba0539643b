"""The commands of a stream: who published what, and which publications still want an answer."""

from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.message import Record
from trackside.contracts.refusals import Problem
from trackside.domain.outcome import Outcome

REMEMBERED = 1_000
"""How many commands a stream remembers; the oldest answered ones are forgotten first."""


@dataclass(slots=True)
class Publication:
    """One publication of a command: its place in the commands topic, and whether it is answered.

    `offset` is that of its CommandReceived, `answered_at` that of its answer, -1 without one.
    """

    source: Source
    digest: str
    offset: int
    answered: bool = False
    answered_at: int = -1


@dataclass(slots=True)
class ReceivedCommand:
    """A command by its id: the first body counts, `answer` is its first answer (None: accepted)."""

    command_id: str
    command_type: str
    body: dict[str, Any] | None
    digest: str
    offset: int
    traceparent: str
    problem: Problem | None
    publications: list[Publication] = field(default_factory=list)
    decided: bool = False
    answer: Problem | None = None


Commands = dict[str, ReceivedCommand]


def received(commands: Commands, event: CommandReceived, record: Record) -> Outcome:
    """Remembers a command, or one more publication of it; the same publication is there only once."""
    command = commands.get(event.command_id)
    if command is None:
        command = ReceivedCommand(
            event.command_id,
            event.command_type,
            event.body,
            event.digest,
            record.offset,
            record.envelope.traceparent,
            event.problem,
        )
        _make_room(commands)
        commands[event.command_id] = command
    if any(publication.source == event.source for publication in command.publications):
        return Outcome.DUPLICATE
    command.publications.append(Publication(event.source, event.digest, record.offset))
    return Outcome.APPLIED


def answered(commands: Commands, event: CommandAccepted | CommandRefused, offset: int) -> Outcome:
    """Marks a publication as answered; the first answer to the first body stays the command's answer."""
    command = commands.get(event.command_id)
    if command is None:
        return Outcome.OVERTAKEN
    for publication in command.publications:
        if publication.source != event.source:
            continue
        if publication.answered:
            return Outcome.DUPLICATE
        publication.answered, publication.answered_at = True, offset
        if not command.decided and publication.digest == command.digest:
            command.decided = True
            command.body = None
            if isinstance(event, CommandRefused):
                command.answer = Problem(code=event.code, path=event.path, message=event.message)
        return Outcome.APPLIED
    return Outcome.OVERTAKEN


def _make_room(commands: Commands) -> None:
    if len(commands) < REMEMBERED:
        return
    for command_id, command in commands.items():
        if command.decided and all(publication.answered for publication in command.publications):
            del commands[command_id]
            return
