"""Decides the command that skips a record of a parked stream. Pure."""

from trackside.contracts.envelope.message import Event
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.streams.commands import CommandAccepted
from trackside.contracts.streams.parking import RecordSkipped, SkipRecord
from trackside.contracts.wire.codec import command_of
from trackside.domain.streams.command import Publication, ReceivedCommand, answer_again, refused
from trackside.domain.streams.parking import (
    ITS_KEY,
    Parked,
    SkippedRecord,
    missing_key,
    parked_problem,
    place_of,
)
from trackside.domain.streams.stream import Stream


def decide_parked(
    stream: Stream, parked: Parked, command: ReceivedCommand, publication: Publication
) -> list[Event]:
    """Returns the answer to a command for a parked stream: all are refused but the one that repairs it."""
    again = answer_again(command, publication)
    if again is not None:
        return [again]
    if command.problems:
        return [refused(command, publication.source, command.problems)]
    read = command_of(command.command_type, command.body or {}, [SkipRecord])
    problem: Problem | None = parked_problem(stream.stream_id, stream.partition, parked)
    if isinstance(read, SkipRecord):
        problem = _refusal(stream, read)
    if problem is not None:
        return [refused(command, publication.source, [problem])]
    assert isinstance(read, SkipRecord)  # or there is a problem
    accepted = CommandAccepted(command_id=command.command_id, source=publication.source)
    if _skipped(stream, read) is not None:
        return [accepted]
    skipped = RecordSkipped(
        command_id=command.command_id, partition=read.partition, offset=read.offset, reason=read.reason
    )
    return [accepted, skipped]


def decide(stream: Stream, command: SkipRecord) -> list[Event] | tuple[Problem, ...]:
    """Returns why a record of a stream that isn't parked can't be skipped; nothing if it is already."""
    problem = _refusal(stream, command)
    return [] if problem is None else (problem,)


def _refusal(stream: Stream, command: SkipRecord) -> Problem | None:
    """Returns why a record can't be skipped; None if it can, or is skipped already."""
    if _skipped(stream, command) is not None:
        return None
    place, parked = place_of(command.partition, command.offset), stream.parked
    if parked is None or (command.partition, command.offset) != (stream.partition, parked.offset):
        parked_by = "" if parked is None else f"; its record {place_of(stream.partition, parked.offset)} has"
        message = f"the record at {place} has not parked stream {stream.stream_id}{parked_by}"
        return Problem(code="not_parked", path="$.offset", message=message)
    if parked.needs == ITS_KEY:
        return missing_key(stream.stream_id, stream.partition, parked)
    return None


def _skipped(stream: Stream, command: SkipRecord) -> SkippedRecord | None:
    if command.partition != stream.partition:
        return None
    return next((each for each in stream.skipped if each.offset == command.offset), None)
