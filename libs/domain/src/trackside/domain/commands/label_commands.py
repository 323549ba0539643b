"""Decides the command that changes the labels of a stream, whatever its aggregate. Pure."""

from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.streams.labels import MAX_TAGS, AnnotateStream, StreamAnnotated
from trackside.domain.streams.labels import StreamLabels, with_changes
from trackside.domain.streams.stream import Stream


def decide(stream: Stream, command: AnnotateStream, command_id: str) -> list[Event] | tuple[Problem, ...]:
    """Returns the event that changes the labels, or why the command is refused.

    A stream that has ended is annotated as any other; one where nothing has begun is not.
    """
    if not stream.kind:
        message = f"nothing has begun in stream {stream.stream_id!r}, so it can't be annotated"
        return (Problem(code="unknown_stream", path="$partitionkey", message=message),)
    known = stream.labels or StreamLabels()
    tags = with_changes(known.tags, command.add_tags, command.remove_tags)
    if len(tags) > MAX_TAGS:
        message = f"{stream.stream_id} would have {len(tags)} tags; at most {MAX_TAGS} are permitted"
        return (Problem(code="bad_length", path="$.add_tags", message=message),)
    if command == AnnotateStream():
        return []
    return [
        StreamAnnotated(
            command_id=command_id,
            added_tags=command.add_tags,
            removed_tags=command.remove_tags,
            note=command.note,
            archived=command.archived,
        )
    ]
