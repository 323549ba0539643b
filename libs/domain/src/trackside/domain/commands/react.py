"""What a stream lacks: an answer to its oldest open command, and what its aggregate lacks. Pure.

What its children lack is in `stream_commands`.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import cast

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.message import Event, Json
from trackside.contracts.envelope.refusals import MAX_PROBLEMS, Problem, nearest
from trackside.contracts.streams.children import WantedChild
from trackside.contracts.streams.commands import CommandAccepted, Ping
from trackside.contracts.streams.labels import AnnotateStream
from trackside.contracts.streams.parking import SkipRecord
from trackside.contracts.wire.codec import validate_command
from trackside.domain.commands import drain_commands, forget_commands, label_commands, repair_commands
from trackside.domain.commands.drain_commands import DrainCommand
from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.folding import task_commands
from trackside.domain.folding.aggregate import Aggregates
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.stream_index import StreamIndex
from trackside.domain.folding.task_commands import TaskCommand
from trackside.domain.pipelines.value_schemas import SchemaCosts
from trackside.domain.proposal import Proposal, parse_cause
from trackside.domain.streams.command import Publication, ReceivedCommand, answer_again, refused
from trackside.domain.streams.parking import Parked
from trackside.domain.streams.stream import Stream


def react(
    stream: Stream, capabilities: Capabilities, aggregates: Aggregates, others: StreamIndex | None = None
) -> list[Proposal]:
    """Returns what a stream lacks now: an answer to its oldest open command, else what its aggregate lacks.

    Not both: an answer may change the aggregate, and a task that is submitted with a stop is in vain.
    Without `others` decisions know of no other stream.
    """
    lookup = Lookup(capabilities) if others is None else others.lookup(capabilities)
    if stream.released is not None:
        return []
    if stream.parked is not None:
        return list(_answers_of_parked(stream, stream.parked))
    answer = _answer(stream, lookup, aggregates)
    if answer is not None:
        return [answer]
    aggregate = aggregates.of(stream)
    if aggregate is None or stream.closed:
        return []
    return list(aggregate.lacking(stream, lookup))


def _answer(stream: Stream, lookup: Lookup, aggregates: Aggregates) -> Proposal | None:
    """Returns the answer to the oldest open command; those that have the stream forgotten come last."""
    forgetting: list[forget_commands.ForgetRequest] = []
    for command in stream.commands.values():
        for publication in command.publications:
            if publication.answered:
                continue
            asked = forget_commands.asked_by(stream, command, publication)
            if asked is not None:
                forgetting.append(asked)
                continue
            events = _decide(stream, command, publication, lookup, aggregates)
            return Proposal("decide command", events, publication.offset, command.traceparent)
    return forget_commands.decide(stream, forgetting, lookup, aggregates) if forgetting else None


def refuse_open(stream: Stream, problem: Problem) -> Proposal | None:
    """Returns a refusal of the command that would be decided next, without deciding it."""
    opened = [
        (command, publication)
        for command in stream.commands.values()
        for publication in command.publications
        if not publication.answered
    ]
    if not opened:
        return None
    command, publication = min(opened, key=lambda each: forget_commands.asked_by(stream, *each) is not None)
    refusal = refused(command, publication.source, [problem])
    return Proposal("decide command", [refusal], publication.offset, command.traceparent)


def _answers_of_parked(stream: Stream, parked: Parked) -> Iterator[Proposal]:
    """Yields the answer to the oldest open command of a parked stream; those of other streams wait."""
    for command in stream.commands.values():
        for publication in command.publications:
            if publication.answered or parse_cause(command.command_id) is not None:
                continue
            events = repair_commands.decide_parked(stream, parked, command, publication)
            yield Proposal("decide command", events, publication.offset, command.traceparent)
            return


def _decide(
    stream: Stream,
    command: ReceivedCommand,
    publication: Publication,
    lookup: Lookup,
    aggregates: Aggregates,
) -> list[Event]:
    again = answer_again(command, publication)
    if again is not None:
        return [again]
    decided = tuple(command.problems) or _effect(
        stream,
        command.command_id,
        command.command_type,
        command.body or {},
        lookup._replace(schema_costs=SchemaCosts()),
        aggregates,
    )
    if isinstance(decided, tuple):
        return [refused(command, publication.source, decided)]
    return [CommandAccepted(command_id=command.command_id, source=publication.source), *decided]


def _effect(
    stream: Stream,
    command_id: str,
    command_type: str,
    body: Json,
    lookup: Lookup,
    aggregates: Aggregates,
) -> list[Event] | tuple[Problem, ...]:
    if stream.forgotten is not None:
        return forget_commands.effect_on_forgotten(stream, command_type)
    read = validate_command(command_type, body, aggregates.commands)
    if isinstance(read, tuple):
        return read
    if isinstance(read, Ping):
        return []
    if isinstance(read, TaskCommand):
        return task_commands.decide(stream, read, command_id)
    if isinstance(read, AnnotateStream):
        return label_commands.decide(stream, read, command_id)
    if isinstance(read, SkipRecord):
        return repair_commands.decide(stream, read)
    if isinstance(read, DrainCommand):
        return drain_commands.decide(stream, read, command_id, lookup.capabilities)
    aggregate = aggregates.of_command(type(read))
    if aggregate is None:
        message = f"no service of this installation decides {command_type}"
        return (Problem(code="unknown_command", path="$type", message=message),)
    decided = aggregate.commands[type(read)](stream, read, command_id, lookup)
    own = (decided,) if isinstance(decided, Problem) else decided if isinstance(decided, tuple) else ()
    wanted = aggregate.children_of(read, stream.stream_id)
    problems = (*own, *islice(_child_problems(stream, wanted, lookup, aggregates), MAX_PROBLEMS))
    return problems or cast(list[Event], decided)


def _child_problems(
    stream: Stream, wanted: Iterable[WantedChild], lookup: Lookup, aggregates: Aggregates
) -> Iterator[Problem]:
    """Yields why the children that a command asks for would be refused if they began now."""
    for path, child_id, kind, body in wanted:
        child = aggregates.by_kind.get(kind)
        begins_by = None if child is None else child.child_begins_by
        if begins_by is None:
            known = sorted(each.kind for each in aggregates.types if each.child_begins_by is not None)
            message = f"no child can be of kind {kind!r}; known: {', '.join(known)}{nearest(kind, known)}"
            yield Problem(code="unknown_kind", path=f"{path}.kind", message=message)
            continue
        if not is_identifier(child_id):
            message = f"its stream would be {child_id!r}, which is not an identifier: {IDENTIFIER_RULE}"
            yield Problem(code="bad_identifier", path=f"{path}.name", message=message)
        if body is None:
            continue
        begun = _effect(
            Stream(child_id, stream.partition), "", begins_by.wire_type(), body, lookup, aggregates
        )
        for problem in begun if isinstance(begun, tuple) else ():
            yield problem.model_copy(update={"path": f"{path}.spec{problem.path.removeprefix('$')}"})
