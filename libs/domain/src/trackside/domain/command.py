"""The commands of a stream: who published what, and which publications still want an answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.message import Record
from trackside.contracts.refusals import Problem, limit_problems
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import parse_cause

REMEMBERED = 1_000
"""How many commands a stream remembers; the oldest answered ones are forgotten first, never
those of a parent stream, which looks for their answers."""


@dataclass(slots=True)
class Publication:
    """One publication of a command: its place in the commands topic.

    `offset` is that of its CommandReceived, `answered_at` that of its answer, -1 without one.
    """

    source: Source
    digest: str
    offset: int
    answered_at: int = -1

    @property
    def answered(self) -> bool:
        """Whether the log has an answer to it."""
        return self.answered_at >= 0


@dataclass(slots=True)
class ReceivedCommand:
    """A command by its id: the first body counts.

    `problems` are those of its record, until it is decided; `refusal` those of its first answer, none if that
    accepted it.
    """

    command_id: str
    command_type: str
    body: dict[str, Any] | None
    digest: str
    offset: int
    traceparent: str
    problems: list[Problem]
    publications: list[Publication] = field(default_factory=list)
    decided: bool = False
    refusal: list[Problem] = field(default_factory=list)
    carried_out: bool = False
    """Whether it has changed labels, or drained or resumed a device: it does so once."""

    @property
    def answer(self) -> Problem | None:
        """The first problem of its first answer, None if that accepted it."""
        return self.refusal[0] if self.refusal else None


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
            _with_first(event.problem, event.problems),
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
        publication.answered_at = offset
        if not command.decided and publication.digest == command.digest:
            command.decided = True
            command.body = None
            command.problems = []
            if isinstance(event, CommandRefused):
                first = Problem(code=event.code, path=event.path, message=event.message)
                command.refusal = _with_first(first, event.problems)
        return Outcome.APPLIED
    return Outcome.OVERTAKEN


def refused(command: ReceivedCommand, source: Source, problems: Sequence[Problem]) -> CommandRefused:
    """Returns the refusal of a publication for these problems, of which there is at least one."""
    first = problems[0]
    return CommandRefused(
        command_id=command.command_id,
        source=source,
        code=first.code,
        path=first.path,
        message=first.message,
        problems=limit_problems(problems),
    )


def id_conflict(command: ReceivedCommand) -> Problem:
    """Returns the problem of a command whose id was used before, with another body."""
    message = f"command id was used with another body at offset {command.offset} of its stream"
    return Problem(code="idempotency_conflict", message=message)


def _with_first(first: Problem | None, problems: list[Problem]) -> list[Problem]:
    """Returns all problems of an event, the first one whole; older events name no other."""
    return [] if first is None else [first, *problems[1:]]


def _make_room(commands: Commands) -> None:
    if len(commands) < REMEMBERED:
        return
    for command_id, command in commands.items():
        answered = command.decided and all(publication.answered for publication in command.publications)
        if answered and parse_cause(command_id) is None:
            del commands[command_id]
            return
