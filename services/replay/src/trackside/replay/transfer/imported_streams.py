"""Streams that were imported: in a topic of their own, which no service reads.

Its records are those of the exported stream, with their original offsets and times: so they fold to the same
state, whenever and wherever they were imported. An import is valid once its last record is written; of two
under one name the first that was completed is.
"""

from collections.abc import Mapping
from contextlib import aclosing

from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Envelope, Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.imports import StreamImported
from trackside.contracts.trust.encryption import ENCRYPTION_HEADERS
from trackside.contracts.wire.codec import UndecodableError
from trackside.eventlog.errors import PreflightError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry, Log, RecordHeaders
from trackside.replay.history.recorded_stream import RecordedStream, has_value, read_entries
from trackside.replay.transfer.file_format import ExportedRecord, without_headers

PREFIX = "imported/"
IMPORT, PLACE, TIME = "ce_importid", "ce_originalplace", "ce_originaltime"
ADDED_HEADERS = (IMPORT, PLACE, TIME)


def origin_headers(import_id: str, partition: int, line: ExportedRecord) -> RecordHeaders:
    """Returns the headers that keep a record's origin."""
    return [
        (IMPORT, import_id.encode()),
        (PLACE, f"{partition}:{line.offset}".encode()),
        (TIME, str(line.time_ms).encode()),
    ]


def original_headers(entry: Entry) -> RecordHeaders:
    """Returns the headers that a record is exported with, and was: a file has no encrypted values."""
    return without_headers(entry.headers, (*ADDED_HEADERS, *ENCRYPTION_HEADERS))


async def find_imported(log: Log, topics: Topics, stream_id: str) -> RecordedStream | None:
    """Finds an imported stream; None if there is no complete one of this name."""
    topic = topics.imports
    try:
        await log.preflight([topic])
    except PreflightError:
        return None  # nothing was imported yet
    place = (topic.name, partition_of(stream_id, topic.partitions))
    begin = (await log.beginnings(topic.name))[place[1]]
    end = (await log.ends(topic.name))[place[1]]
    async with aclosing(read_entries(log, place, begin, end)) as batches:
        async for batch in batches:
            for entry in batch:
                found = _completed(entry, stream_id)
                if found is not None:
                    return _history(log, place, entry.offset, found)
    return None


def _completed(entry: Entry, stream_id: str) -> StreamImported | None:
    """Returns the record that completes an import of a stream, None for any other record."""
    if entry.value is None or not has_value(entry, StreamImported.wire_type().encode()):
        return None
    envelope = CODEC.envelope(entry.headers)
    if envelope.stream != stream_id or envelope.role not in StreamImported.written_by:
        return None
    try:
        message = CODEC.decode(envelope, entry.value)
    except UndecodableError:
        return None
    return message if isinstance(message, StreamImported) else None


def _history(log: Log, place: tuple[str, int], end: int, found: StreamImported) -> RecordedStream:
    import_id = found.import_id.encode()

    def select(entry: Entry, _stream: bytes) -> Record | None:
        return restore(entry, import_id)

    return RecordedStream(
        log, found.stream, place, found.begin, end, found.partition, found.last_offset, select
    )


def restore(entry: Entry, import_id: bytes) -> Record | None:
    """Returns a record of an import as it was first written, None for any other record.

    Nothing else reads these headers: in the log of events they have no meaning.
    """
    if not has_value(entry, import_id):
        return None
    record = decode(entry)
    if record is None or record.envelope.headers.get(IMPORT) != import_id:
        return None
    place = _original_place(record.envelope.headers)
    if place is None:
        return None
    partition, offset, time_ms = place
    envelope = Envelope({n: data for n, data in record.envelope.headers.items() if n not in ADDED_HEADERS})
    return Record(record.topic, partition, offset, time_ms, envelope, record.message)


def _original_place(headers: Mapping[str, bytes]) -> tuple[int, int, int] | None:
    numbers = [*headers.get(PLACE, b"").split(b":"), headers.get(TIME, b"")]
    if len(numbers) != 3 or not all(number.isdigit() and len(number) < 20 for number in numbers):
        return None
    partition, offset, time_ms = (int(number) for number in numbers)
    return partition, offset, time_ms
