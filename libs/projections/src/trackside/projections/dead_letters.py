"""Rows of records that could not be decoded, keyed by their own place in the dead letters."""

from trackside.contracts.commands import RecordDeadLettered
from trackside.contracts.message import Record
from trackside.projections.cells import plain
from trackside.projections.projection import Row, Table

DEAD_LETTERS = Table(
    "dead_letters",
    (
        "letter_partition",
        "letter_offset",
        "source_topic",
        "source_partition",
        "source_offset",
        "code",
        "message",
        "reader",
        "sha256",
        "head_base64",
        "written_ms",
    ),
    key_width=2,
    insert_only=True,
)


def letter_row(record: Record) -> Row | None:
    """Gives the row of a dead letter; nothing for a record that is none."""
    event = record.message
    if not isinstance(event, RecordDeadLettered):
        return None
    return (
        record.partition,
        record.offset,
        plain(event.source.topic),
        event.source.partition,
        event.source.offset,
        plain(event.code),
        plain(event.message),
        plain(event.reader),
        event.sha256,
        event.head_base64,
        record.append_time_ms,
    )
