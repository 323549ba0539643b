"""Decides the command that has a stream forgotten. Pure.

It is decided last of those that are open: the event says which commands it answers, and no other is lost.
"""

from collections.abc import Sequence
from typing import NamedTuple

from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.streams.forgetting import ForgetStream, ForgettingCommand, StreamForgotten
from trackside.contracts.wire.codec import command_of
from trackside.domain.folding.aggregate import Aggregates
from trackside.domain.folding.lookup import Lookup
from trackside.domain.proposal import Proposal, parse_cause
from trackside.domain.streams.command import Publication, ReceivedCommand, refused
from trackside.domain.streams.forgetting import FORGET, Totals, forgotten_problem
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import TaskState

NOTHING = Totals("", "", 0, {}, None, 0, 0)
"""What is known of a stream in which nothing has begun."""


class ForgetRequest(NamedTuple):
    """A publication that asks for its stream to be forgotten."""

    command: ReceivedCommand
    publication: Publication
    forget: ForgetStream


def asked_by(stream: Stream, command: ReceivedCommand, publication: Publication) -> ForgetRequest | None:
    """Returns that a publication asks for the stream to be forgotten; None if it has another answer."""
    if command.command_type != FORGET or stream.forgotten is not None:
        return None
    if command.decided or command.problems or publication.digest != command.digest:
        return None
    read = command_of(FORGET, command.body or {}, [ForgetStream])
    return ForgetRequest(command, publication, read) if isinstance(read, ForgetStream) else None


def decide(
    stream: Stream, asked: Sequence[ForgetRequest], lookup: Lookup, aggregates: Aggregates
) -> Proposal:
    """Returns the event that forgets a stream, or the refusal of the first command that asks for that.

    The commands are accepted once the event is folded: from then on, answers are readable for all.
    """
    first = asked[0]
    problem = _refusal(stream, lookup, aggregates)
    if problem is None:
        events: list[Event] = [_event(stream, asked, aggregates)]
    else:
        events = [refused(first.command, first.publication.source, [problem])]
    return Proposal("decide command", events, first.publication.offset, first.command.traceparent)


def effect_on_forgotten(stream: Stream, command_type: str) -> list[Event] | tuple[Problem, ...]:
    """Returns what a command changes in a forgotten stream: nothing, and all but that are refused."""
    return [] if command_type == FORGET else (forgotten_problem(stream.stream_id),)


def _event(stream: Stream, asked: Sequence[ForgetRequest], aggregates: Aggregates) -> StreamForgotten:
    aggregate = aggregates.of(stream)
    totals = NOTHING if aggregate is None else aggregate.totals(stream)
    return StreamForgotten(
        commands=[
            ForgettingCommand(
                command_id=command.command_id,
                digest=command.digest,
                source=publication.source,
                offset=publication.offset,
            )
            for command, publication, _ in asked
        ],
        reason=asked[0].forget.reason,
        rules=stream.rules,
        kind=stream.kind,
        status=totals.status,
        unit=totals.unit,
        ended=totals.ended,
        ends=dict(totals.ends),
        total=totals.total,
        started_ms=totals.started_ms,
        ended_ms=totals.ended_ms,
        first_offset=stream.first_offset,
        follows=stream.commands_at,
    )


def _refusal(stream: Stream, lookup: Lookup, aggregates: Aggregates) -> Problem | None:
    """Returns why a stream can't be forgotten, None if it can."""
    name = stream.stream_id
    if not stream.kind and all(each.command_type == FORGET for each in stream.commands.values()):
        message = f"nothing has begun in stream {name!r}, so there is nothing to forget"
        return Problem(code="unknown_stream", path="$partitionkey", message=message)
    if not stream.public_key:
        message = (
            f"stream {name} is not encrypted, so its events stay readable whatever is decided: delete the "
            "topic, or wait for its retention; encrypt streams with personal data from their beginning"
        )
        return Problem(code="not_encrypted", path="$partitionkey", message=message)
    if (why := _runs(stream, aggregates)) is not None:
        message = f"stream {name} can't be forgotten: {why}; wait until it is over, or stop it"
        return Problem(code="not_over", path="$partitionkey", message=message)
    if (sender := _open_sender(stream, lookup)) is not None:
        message = f"stream {name} was asked for by stream {sender}, which is not over: stop that one first"
        return Problem(code="parent_not_over", path="$partitionkey", message=message)
    return None


def _runs(stream: Stream, aggregates: Aggregates) -> str | None:
    """Returns what of a stream runs or may begin by itself, None if nothing does."""
    aggregate = aggregates.of(stream)
    if aggregate is not None and not stream.over:
        return f"its {stream.kind} is not over"
    if any(task.state is not TaskState.ENDED for task in stream.tasks.values()):
        return "a task of it has not ended"
    if any(child.open for child in stream.children.values()):
        return "a child of it has not ended"
    if aggregate is not None and not stream.closed and aggregate.next_due_ms(stream) is not None:
        return "it waits for a time"
    return "devices are drained by it" if stream.drained else None


def _open_sender(stream: Stream, lookup: Lookup) -> str | None:
    """Returns a stream that has sent this one a command, and may look for its answer or send another."""
    for command_id in stream.commands:
        cause = parse_cause(command_id)
        sender = None if cause is None else lookup.find(cause[0])
        if sender is not None and sender.forgotten is None and not (sender.over or sender.closed):
            return sender.stream_id
    return None
