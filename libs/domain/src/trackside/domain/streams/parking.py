"""Parked streams: what happens to a stream with a record that only a newer release can interpret. Pure.

Nobody may guess what such a record means, so nothing after it is folded either, and nothing is decided. The
log keeps the events that follow, and the state only has from where on: when `RecordSkipped` says that the
record counts for no reader, each reader reads the records of the stream again from there, and folds them
without it. A newer release folds the log from its start instead.
"""

from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.streams.parking import RecordSkipped


@dataclass(slots=True)
class Parked:
    """Why a stream is parked: the offset of the record, what it needs, and the decision that it is part of.

    `next_digest` is that of the stream at that record: with it the signatures of those that follow are
    checked again. `heard` are the tasks with a placement of which their worker has written since, each with
    whether that ended the placement.
    """

    offset: int
    needs: str
    parked_ms: int
    decision: str = ""
    next_digest: bytes = b""
    heard: dict[str, bool] = field(default_factory=dict)


@dataclass(slots=True)
class Released:
    """A stream that goes on, of which not all is read again yet: until then nothing is decided about it.

    `read_to` is the offset of the record that parked it, then of the last one that was read again. Events
    about commands have counted when they came, up to the `RecordSkipped` at `offset`.
    """

    read_to: int
    offset: int


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A record that was skipped: what it needed, why it was skipped, and by which command."""

    offset: int
    needs: str
    reason: str
    command_id: str
    skipped_ms: int


ITS_KEY = "its key"
"""What a stream needs whose key this reader does not have: no record of it can be skipped."""


def needed_type(wire_type: str) -> str:
    """Returns what an event of an unknown type needs."""
    return f"a newer release: type {wire_type}"


def needed_rules(rules: int) -> str:
    """Returns what a stream needs that was begun with unknown rules."""
    return f"a newer release: rules {rules}"


def place_of(partition: int, offset: int) -> str:
    """Writes a place of the events topic as the command line takes it: `PARTITION/OFFSET`."""
    return f"{partition}/{offset}"


def needed_at(parked: Parked, partition: int) -> str:
    """Returns why a stream is parked: `needs a newer release: type trackside.x.v1 at 3/17`."""
    return f"needs {parked.needs} at {place_of(partition, parked.offset)}"


def parked_by(record: Record, needs: str, next_digest: bytes) -> Parked:
    """Returns that a record has parked its stream."""
    decision = record.envelope.decision_id.decode("ascii")  # the fold has no effect of another one
    return Parked(record.offset, needs, record.append_time_ms, decision, next_digest)


def skipped_by(event: RecordSkipped, parked: Parked, record: Record) -> SkippedRecord:
    """Returns what is known of a record that parked its stream, once an event has it skipped."""
    return SkippedRecord(parked.offset, parked.needs, event.reason, event.command_id, record.append_time_ms)


def parked_problem(stream_id: str, partition: int, parked: Parked) -> Problem:
    """Returns why a command for a parked stream is refused."""
    if parked.needs == ITS_KEY:
        return missing_key(stream_id, partition, parked)
    message = (
        f"stream {stream_id} is parked: it {needed_at(parked, partition)}; upgrade, or skip that record with "
        f"`trackside repair {place_of(partition, parked.offset)} --skip --reason TEXT`, and publish again"
    )
    return Problem(code="stream_parked", path="$partitionkey", message=message)


def missing_key(stream_id: str, partition: int, parked: Parked) -> Problem:
    """Returns why nothing can be decided about a stream whose key is missing."""
    message = (
        f"stream {stream_id} is encrypted, and its key was missing at {place_of(partition, parked.offset)}: "
        "restore the keys of the streams from a backup, and restart the services"
    )
    return Problem(code="key_missing", path="$partitionkey", message=message)


def is_place(event: RecordSkipped, parked: Parked, partition: int) -> bool:
    """Returns whether an event names the record that parked a stream."""
    return (event.partition, event.offset) == (partition, parked.offset) and parked.needs != ITS_KEY
