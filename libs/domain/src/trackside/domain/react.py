"""What a stream lacks: an answer to its oldest open command, and what its aggregate lacks. Pure."""

from trackside.contracts.codec import validate_command
from trackside.contracts.commands import CommandAccepted, Ping
from trackside.contracts.message import Event
from trackside.contracts.refusals import Problem
from trackside.domain.aggregate import Aggregates
from trackside.domain.capabilities import Capabilities
from trackside.domain.command import Publication, ReceivedCommand, id_conflict, refused
from trackside.domain.proposal import Proposal
from trackside.domain.stream import Stream


def react(stream: Stream, capabilities: Capabilities, aggregates: Aggregates) -> list[Proposal]:
    """Returns what a stream lacks now: an answer to its oldest open command, else what its aggregate lacks.

    Not both: an answer may change the aggregate, and a task that is submitted with a stop is in vain.
    """
    answer = _answer(stream, capabilities, aggregates)
    if answer is not None:
        return [answer]
    aggregate = aggregates.of(stream)
    return [] if aggregate is None or stream.closed else list(aggregate.lacking(stream))


def _answer(stream: Stream, capabilities: Capabilities, aggregates: Aggregates) -> Proposal | None:
    for command in stream.commands.values():
        for publication in command.publications:
            if not publication.answered:
                events = _decide(stream, command, publication, capabilities, aggregates)
                return Proposal("decide command", events, publication.offset, command.traceparent)
    return None


def _decide(
    stream: Stream,
    command: ReceivedCommand,
    publication: Publication,
    capabilities: Capabilities,
    aggregates: Aggregates,
) -> list[Event]:
    accepted = CommandAccepted(command_id=command.command_id, source=publication.source)
    if publication.digest != command.digest:
        return [refused(command, publication.source, [id_conflict(command)])]
    if command.decided:
        if command.refusal:
            return [refused(command, publication.source, command.refusal)]
        return [accepted]
    decided = tuple(command.problems) or _effect(stream, command, capabilities, aggregates)
    if isinstance(decided, Problem):
        decided = (decided,)
    if isinstance(decided, tuple):
        return [refused(command, publication.source, decided)]
    return [accepted, *decided]


def _effect(
    stream: Stream, command: ReceivedCommand, capabilities: Capabilities, aggregates: Aggregates
) -> list[Event] | Problem | tuple[Problem, ...]:
    read = validate_command(command.command_type, command.body or {}, aggregates.commands)
    if isinstance(read, tuple):
        return read
    if isinstance(read, Ping):
        return []
    handler = aggregates.handler_of(type(read))
    if handler is None:
        message = f"no service of this installation decides {command.command_type}"
        return Problem(code="unknown_command", path="$type", message=message)
    return handler(stream, read, command.command_id, capabilities)
