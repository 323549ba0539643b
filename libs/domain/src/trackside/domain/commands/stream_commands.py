"""What other streams lack of one: its commands, those for its children too, and their ends in its own.

All of it follows from the folded state of both, so it is proposed again until it is in the log; what is there
twice counts once. Pure.
"""

from collections.abc import Iterator
from dataclasses import replace

from trackside.contracts.envelope.message import Json
from trackside.contracts.streams.children import ChildEnded
from trackside.contracts.streams.commands import RULES, CommandReceived, Source
from trackside.contracts.wire.ingress import digest_of
from trackside.domain.folding.aggregate import Aggregates, FindStream
from trackside.domain.proposal import Proposal, cause_of
from trackside.domain.streams.child import REFUSED, Child
from trackside.domain.streams.forgetting import without_content
from trackside.domain.streams.outgoing import received_by
from trackside.domain.streams.stream import Stream


def pending(
    stream: Stream, find: FindStream, aggregates: Aggregates, events_topic: str
) -> Iterator[tuple[str, Proposal]]:
    """Yields what a stream's commands and children lack now, each with the stream that it is written into.

    Another stream gets each command that this one sends to it. A child gets the command that begins it; once
    that is accepted, the command that stops it if its parent asks for that; and its parent gets its end.
    `find` returns any stream by its id. A stream that was forgotten gets no content any more.
    """
    for receiver, proposal in _pending(stream, find, aggregates, events_topic):
        other = find(receiver)
        forgotten = other is not None and other.forgotten is not None
        yield receiver, _without_content(receiver, proposal) if forgotten else proposal


def _without_content(receiver: str, proposal: Proposal) -> Proposal:
    events = [
        without_content(receiver, event) if isinstance(event, CommandReceived) else event
        for event in proposal.events
    ]
    return replace(proposal, events=events)


def _pending(
    stream: Stream, find: FindStream, aggregates: Aggregates, events_topic: str
) -> Iterator[tuple[str, Proposal]]:
    for child in stream.children.values():
        if child.open:
            found = _next(stream, child, find(child.child_id), aggregates, events_topic)
            if found is not None:
                yield found
    aggregate = None if stream.closed else aggregates.by_kind.get(stream.kind)
    if aggregate is None:
        return
    for receiver, asked_at, command_type, body in aggregate.outgoing(stream.root):
        if received_by(stream, asked_at, find(receiver)) is None:
            yield _command(stream, receiver, events_topic, asked_at, command_type, body)


def _next(
    parent: Stream, child: Child, stream: Stream | None, aggregates: Aggregates, topic: str
) -> tuple[str, Proposal] | None:
    start, aggregate = received_by(parent, child.requested_at, stream), aggregates.by_kind.get(child.kind)
    if aggregate is None or aggregate.child_begins_by is None:  # another release has this kind
        return None
    if stream is None or start is None:
        body = child.body or {}
        begins_by = aggregate.child_begins_by.wire_type()
        return _command(parent, child.child_id, topic, child.requested_at, begins_by, body)
    if not start.decided:
        return None
    if start.refusal:
        problems: Json = {"problems": [problem.model_dump() for problem in start.refusal]}
        return _end(parent, child, REFUSED, problems, start.publications[0].answered_at)
    if stream.root is None:  # its answer is read, and what follows in the same decision is not
        return None
    if stream.root.over:
        return _end(parent, child, *aggregate.outcome(stream.root), stream.root.changed_at)
    if not child.stopping or received_by(parent, child.stop_requested_at, stream) is not None:
        return None
    stop = aggregate.stop_command("", child.stop_reason)
    if stop is None:
        return None
    body = stop.model_dump(mode="json")
    return _command(parent, child.child_id, topic, child.stop_requested_at, stop.wire_type(), body)


def _command(
    sender: Stream, receiver: str, topic: str, asked_at: int, command_type: str, body: Json
) -> tuple[str, Proposal]:
    """Returns a command for another stream: the event that asks for it is its source, its cause, and its id.

    A publisher can't use such an id, since it is no identifier.
    """
    received = CommandReceived(
        command_id=cause_of(sender.stream_id, asked_at),
        command_type=command_type,
        body=body,
        digest=digest_of(command_type, body),
        source=Source(topic=topic, partition=sender.partition, offset=asked_at),
        publisher=f"trackside/stream/{sender.stream_id}",
        rules=RULES,
    )
    return receiver, Proposal("send command", [received], asked_at, sender.traceparent, sender.stream_id)


def _end(parent: Stream, child: Child, status: str, result: Json, ended_at: int) -> tuple[str, Proposal]:
    ended = ChildEnded(child_id=child.child_id, status=status, result=result)
    return parent.stream_id, Proposal("end child", [ended], ended_at, parent.traceparent, child.child_id)
