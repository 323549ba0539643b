"""The commands of a stream: who published what, and which publications still want an answer."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.refusals import TOO_MANY, Problem, limit_problems
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused, Source
from trackside.contracts.wire.ingress import publisher_of
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import parse_cause

REMEMBERED = 1_000
"""How many commands a stream remembers; the oldest answered ones are forgotten first, never
those of a parent stream, which looks for their answers."""


@dataclass(slots=True)
class Publication:
    """One publication of a command: its place in the commands topic.

    `offset` is that of its CommandReceived, `answered_at` that of its answer, -1 without one. `postponed` is
    the limit of its publisher that it is beyond: it is refused, and decides nothing about its command.
    """

    source: Source
    digest: str
    offset: int
    answered_at: int = -1
    postponed: Problem | None = None

    @property
    def answered(self) -> bool:
        """Whether the log has an answer to it."""
        return self.answered_at >= 0


@dataclass(slots=True)
class ReceivedCommand:
    """A command by its id: the first body counts, that of a publication that is not postponed.

    `problems` are those of its record, and `publisher` who published it, until it is decided; `refusal` those
    of its first answer, none if that accepted it.
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
    publisher: str = ""

    @property
    def answer(self) -> Problem | None:
        """The first problem of its first answer, None if that accepted it or there is none yet.

        While all that was answered was postponed, the reason for that.
        """
        if self.refusal:
            return self.refusal[0]
        last = self.publications[-1]
        return last.postponed if not self.decided and last.answered else None


Commands = dict[str, ReceivedCommand]


def received(commands: Commands, event: CommandReceived, record: Record) -> Outcome:
    """Remembers a command, or one more publication of it; the same publication is there only once."""
    command = commands.get(event.command_id)
    known = [] if command is None else command.publications
    if any(publication.source == event.source for publication in known):
        return Outcome.DUPLICATE
    problem = event.problem
    postponed = problem if problem is not None and problem.code == TOO_MANY else None
    if command is None:
        _make_room(commands)
    if command is None or (postponed is None and all(each.postponed for each in known)):
        commands.pop(event.command_id, None)  # it is decided after those that came since it was postponed
        command = commands[event.command_id] = ReceivedCommand(
            event.command_id,
            event.command_type,
            event.body,
            event.digest,
            record.offset,
            record.envelope.traceparent,
            _with_first(problem, event.problems) if postponed is None else [],
            known,
            publisher=publisher_of(event.key_id, event.publisher) if postponed is None else "",
        )
    command.publications.append(Publication(event.source, event.digest, record.offset, postponed=postponed))
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
        if publication.postponed is None and not command.decided and publication.digest == command.digest:
            command.decided = True
            command.publisher = ""
            command.body = None
            command.problems = []
            if isinstance(event, CommandRefused):
                first = Problem(code=event.code, path=event.path, message=event.message)
                command.refusal = _with_first(first, event.problems)
        return Outcome.APPLIED
    return Outcome.OVERTAKEN


def has_counted(
    commands: Commands, event: CommandReceived | CommandAccepted | CommandRefused, offset: int
) -> bool:
    """Returns whether an event about a command that was folded at an offset has counted.

    What is forgotten since is taken to have counted.
    """
    command = commands.get(event.command_id)
    if command is None:
        return True
    if isinstance(event, CommandReceived):
        return any(each.offset == offset for each in command.publications)
    return any(each.answered_at == offset for each in command.publications)


def answer_again(
    command: ReceivedCommand, publication: Publication
) -> CommandAccepted | CommandRefused | None:
    """Returns the answer to a publication that nothing is to be decided for; None if there is."""
    if publication.postponed is not None:
        return refused(command, publication.source, [publication.postponed])
    if publication.digest != command.digest:
        return refused(command, publication.source, [id_conflict(command)])
    if not command.decided:
        return None
    if command.refusal:
        return refused(command, publication.source, command.refusal)
    return CommandAccepted(command_id=command.command_id, source=publication.source)


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
        answered = all(publication.answered for publication in command.publications)
        if answered and parse_cause(command_id) is None:
            del commands[command_id]
            return
