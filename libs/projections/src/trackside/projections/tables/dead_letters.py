"""Rows of records that could not be decoded, keyed by their offset in the dead-letters topic."""

from trackside.contracts.envelope.message import Record
from trackside.contracts.streams.commands import RecordDeadLettered
from trackside.domain.rows.cells import without_nul
from trackside.domain.rows.table import RowValues, Table

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


def letter_row(record: Record) -> RowValues | None:
    """Returns the row of a dead letter; None for any other record."""
    event = record.message
    if not isinstance(event, RecordDeadLettered):
        return None
    return (
        record.partition,
        record.offset,
        without_nul(event.source.topic),
        event.source.partition,
        event.source.offset,
        without_nul(event.code),
        without_nul(event.message),
        without_nul(event.reader),
        event.sha256,
        event.head_base64,
        record.append_time_ms,
    )
