"""Entries of the log as records."""

from trackside.aggregates.registry import CODEC
from trackside.contracts.message import Record
from trackside.eventlog.log import Entry


def of_stream(entry: Entry, stream_id: str) -> Record | None:
    """Decodes an entry if it belongs to the stream; others are skipped by their headers."""
    if CODEC.envelope(entry.headers).stream != stream_id:
        return None
    return record_of(entry)


def record_of(entry: Entry) -> Record:
    """Decodes an entry."""
    envelope = CODEC.envelope(entry.headers)
    message = CODEC.decode(envelope, entry.value)
    return Record(entry.topic, entry.partition, entry.offset, entry.append_time_ms, envelope, message)
