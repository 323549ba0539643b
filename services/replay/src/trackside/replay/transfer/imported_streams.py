"""Streams that were imported: a topic of their own, which no service reads.

Its records are those of the exported stream, with the places and times that they had: so they fold to the
same state, whenever they were imported and wherever they landed. An import counts once its last record is
there; of two under one name the first that was completed counts.
"""

from collections.abc import Mapping
from contextlib import aclosing

from trackside.contracts.codec import CODEC, UndecodableError
from trackside.contracts.imports import StreamImported
from trackside.contracts.message import Envelope, Record
from trackside.contracts.topics import Topics, partition_of
from trackside.eventlog.decode import decode
from trackside.eventlog.errors import PreflightError
from trackside.eventlog.log import Entry, Log, RecordHeaders
from trackside.replay.history.history import History, entries, speaks_of
from trackside.replay.transfer.file_format import Line, without

PREFIX = "imported/"
IMPORT, PLACE, TIME = "ce_importid", "ce_originalplace", "ce_originaltime"
ADDED = (IMPORT, PLACE, TIME)


def added_headers(import_id: str, partition: int, line: Line) -> RecordHeaders:
    """Gives the headers that keep a record's origin."""
    return [
        (IMPORT, import_id.encode()),
        (PLACE, f"{partition}:{line.offset}".encode()),
        (TIME, str(line.time_ms).encode()),
    ]


def original_headers(entry: Entry) -> RecordHeaders:
    """Gives the headers that a record was exported with."""
    return without(entry.headers, ADDED)


async def find_imported(log: Log, topics: Topics, stream_id: str) -> History | None:
    """Finds an imported stream; None if there is none of this name that is complete."""
    topic = topics.imports
    try:
        await log.preflight([topic])
    except PreflightError:
        return None  # nothing was ever imported here
    place = (topic.name, partition_of(stream_id, topic.partitions))
    begin = (await log.beginnings(topic.name))[place[1]]
    end = (await log.ends(topic.name))[place[1]]
    async with aclosing(entries(log, place, begin, end)) as batches:
        async for batch in batches:
            for entry in batch:
                found = _completed(entry, stream_id)
                if found is not None:
                    return _history(log, place, entry.offset, found)
    return None


def _completed(entry: Entry, stream_id: str) -> StreamImported | None:
    """Reads the record that completes an import of a stream; None for any other."""
    if entry.value is None or not speaks_of(entry, StreamImported.wire_type().encode()):
        return None
    envelope = CODEC.envelope(entry.headers)
    if envelope.stream != stream_id or envelope.role not in StreamImported.written_by:
        return None
    try:
        message = CODEC.decode(envelope, entry.value)
    except UndecodableError:
        return None
    return message if isinstance(message, StreamImported) else None


def _history(log: Log, place: tuple[str, int], end: int, found: StreamImported) -> History:
    wanted = found.import_id.encode()

    def take(entry: Entry) -> Record | None:
        return restored(entry, wanted)

    return History(log, found.stream, place, found.begin, end, found.partition, found.last_offset, take)


def restored(entry: Entry, import_id: bytes) -> Record | None:
    """Gives a record of an import as it was where it was first written; None for any other record.

    Nothing else reads these headers: in the log of events they mean nothing, whoever writes them.
    """
    if not speaks_of(entry, import_id):
        return None
    record = decode(entry)
    if record is None or record.envelope.headers.get(IMPORT) != import_id:
        return None
    place = _place(record.envelope.headers)
    if place is None:
        return None
    partition, offset, time_ms = place
    envelope = Envelope({n: octets for n, octets in record.envelope.headers.items() if n not in ADDED})
    return Record(record.topic, partition, offset, time_ms, envelope, record.message)


def _place(headers: Mapping[str, bytes]) -> tuple[int, int, int] | None:
    numbers = [*headers.get(PLACE, b"").split(b":"), headers.get(TIME, b"")]
    if len(numbers) != 3 or not all(number.isdigit() and len(number) < 20 for number in numbers):
        return None
    partition, offset, time_ms = (int(number) for number in numbers)
    return partition, offset, time_ms
