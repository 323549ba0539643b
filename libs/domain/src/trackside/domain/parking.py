"""Parked streams: what happens to a stream with a record that only a newer release can interpret. Pure.

Nobody may guess what such a record means, so nothing after it is folded either, and nothing is decided. The
events that follow are held, in order, until `RecordSkipped` says that the record counts for no reader: then
they are folded without it. A newer release folds the log from its start instead.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from trackside.contracts.codec import Codec, UndecodableError
from trackside.contracts.message import Envelope, Message, Record
from trackside.contracts.parking import RecordSkipped, UnknownRecord
from trackside.contracts.refusals import Problem

MAX_HELD = 10_000
"""How many records are held for a parked stream at most, so that it takes bounded memory."""
MAX_HELD_CHARACTERS = 8 * 1024 * 1024


@dataclass(slots=True)
class HeldRecord:
    """A record as it was read; header values as Latin-1, which has a character for each octet."""

    offset: int
    append_time_ms: int
    wire_type: str
    body: str
    headers: dict[str, str]


@dataclass(slots=True)
class Parked:
    """Why a stream is parked: the offset of the record, what it needs, and the decision that it is part of.

    `held` are the records since, the oldest first; with `overfull` some are missing.
    """

    offset: int
    needs: str
    parked_ms: int
    decision: str = ""
    held: list[HeldRecord] = field(default_factory=list)
    held_characters: int = 0
    overfull: bool = False


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """A record that was skipped: what it needed, why it was skipped, and by which command."""

    offset: int
    needs: str
    reason: str
    command_id: str
    skipped_ms: int


ITS_KEY = "its key"
"""What a stream needs whose key this reader does not have; nothing of it is held."""


def needed_type(wire_type: str) -> str:
    """Returns what an event of an unknown type needs."""
    return f"a newer release: type {wire_type}"


def needed_rules(rules: int) -> str:
    """Returns what a stream needs that was begun with unknown rules."""
    return f"a newer release: rules {rules}"


def place_of(partition: int, offset: int) -> str:
    """Writes a place of the events topic as the command line takes it: `PARTITION/OFFSET`."""
    return f"{partition}/{offset}"


def told(parked: Parked, partition: int) -> str:
    """Says why a stream is parked: `needs a newer release: type trackside.x.v1 at 3/17`."""
    return f"needs {parked.needs} at {place_of(partition, parked.offset)}"


def parked_by(record: Record, needs: str) -> Parked:
    """Returns that a record has parked its stream."""
    decision = record.envelope.decision_id.decode("ascii")  # the fold has no effect of another one
    return Parked(record.offset, needs, record.append_time_ms, decision)


def skipped_by(event: RecordSkipped, parked: Parked, record: Record) -> SkippedRecord:
    """Returns what is known of a record that parked its stream, once an event has it skipped."""
    return SkippedRecord(parked.offset, parked.needs, event.reason, event.command_id, record.append_time_ms)


def hold(parked: Parked, record: Record) -> None:
    """Holds a record until the stream continues, if there is room."""
    envelope, message = record.envelope, record.message
    if isinstance(message, UnknownRecord):
        wire_type, body = message.unknown_type, ""
    else:
        wire_type, body = message.wire_type(), message.model_dump_json()
    headers = {name: octets.decode("latin-1") for name, octets in envelope.headers.items()}
    size = len(body) + sum(len(name) + len(text) for name, text in headers.items())
    if len(parked.held) >= MAX_HELD or parked.held_characters + size > MAX_HELD_CHARACTERS:
        parked.overfull = True
    if parked.overfull:  # all after a gap is useless
        return
    parked.held_characters += size
    parked.held.append(HeldRecord(record.offset, record.append_time_ms, wire_type, body, headers))


def records_of(parked: Parked, topic: str, partition: int, codec: Codec) -> Iterator[Record]:
    """Yields the held records, as they were read."""
    for held in parked.held:
        envelope = Envelope({name: text.encode("latin-1") for name, text in held.headers.items()})
        message = _message(held, codec)
        yield Record(topic, partition, held.offset, held.append_time_ms, envelope, message)


def _message(held: HeldRecord, codec: Codec) -> Message:
    try:
        return codec.message(held.wire_type, held.body.encode())
    except UndecodableError:  # what was of a newer release when it was read
        return UnknownRecord(unknown_type=held.wire_type)


def parked_problem(stream_id: str, partition: int, parked: Parked) -> Problem:
    """Returns why a command for a parked stream is refused."""
    if parked.needs == ITS_KEY:
        return missing_key(stream_id, partition, parked)
    message = (
        f"stream {stream_id} is parked: it {told(parked, partition)}; upgrade, or skip that record with "
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
    """Says whether an event names the record that parked a stream, and whether all since is held."""
    is_held = not parked.overfull and parked.needs != ITS_KEY
    return (event.partition, event.offset) == (partition, parked.offset) and is_held
