"""Rows of streams and of the commands they received."""

from collections.abc import Iterable

from trackside.contracts.envelope.message import Event, Record
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.streams.parking import RecordSkipped
from trackside.domain.rows.cells import without_nul
from trackside.domain.rows.table import RowKey, RowValues, Table
from trackside.domain.streams.stream import Stream


class StreamRows:
    """One row per stream: its partition and offsets in the log."""

    table = Table(
        "streams",
        ("stream_id", "partition", "rules", "first_offset", "last_offset", "closed", "parked_at", "needs"),
        key_width=1,
        changes_after_close=True,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the stream: every event changes its row."""
        return ((stream.stream_id,),)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the stream."""
        return ((stream.stream_id,),)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of the stream."""
        return (
            *key,
            stream.partition,
            stream.rules,
            stream.first_offset,
            stream.last_offset,
            stream.closed,
            None if stream.parked is None else stream.parked.offset,
            None if stream.parked is None else without_nul(stream.parked.needs),
        )


class SkippedRecordRows:
    """One row per record of a stream that was skipped, also after its end."""

    table = Table(
        "skipped_records",
        ("stream_id", "partition", "log_offset", "needs", "reason", "command_id", "skipped_ms"),
        key_width=3,
        changes_after_close=True,
    )

    def touched(self, stream: Stream, event: Event) -> Iterable[RowKey]:
        """Returns the record that an event skips."""
        if type(event) is not RecordSkipped:
            return ()
        return ((stream.stream_id, event.partition, event.offset),)

    def keys(self, stream: Stream) -> Iterable[RowKey]:
        """Returns the records of a stream that were skipped."""
        return ((stream.stream_id, stream.partition, each.offset) for each in stream.skipped)

    def row(self, stream: Stream, key: RowKey) -> RowValues:
        """Computes the row of a record."""
        found = next(each for each in stream.skipped if each.offset == key[2])
        needs, reason = without_nul(found.needs), without_nul(found.reason)
        return (*key, needs, reason, found.command_id, found.skipped_ms)


class CommandRows:
    """One row per command of a stream, never removed: the state drops commands and their times."""

    table = Table(
        "commands",
        (
            "stream_id",
            "command_id",
            "command_type",
            "status",
            "code",
            "path",
            "message",
            "publications",
            "publisher",
            "log_offset",
            "received_ms",
            "answered_ms",
        ),
        key_width=2,
        keeps_first=frozenset({"publisher", "received_ms", "answered_ms"}),
    )
    kinds: frozenset[type[Event]] = frozenset({CommandReceived, CommandAccepted, CommandRefused})

    def rows(self, stream: Stream, record: Record) -> Iterable[RowValues]:
        """Returns the row of the command that was received or answered."""
        event = record.message
        if not isinstance(event, CommandReceived | CommandAccepted | CommandRefused):
            return ()
        command = stream.commands[event.command_id]
        received = isinstance(event, CommandReceived)
        problem = command.answer
        status = "refused" if problem else "accepted" if command.decided else "waiting"
        row = (
            stream.stream_id,
            event.command_id,
            without_nul(command.command_type),
            status,
            problem and problem.code,
            problem and without_nul(problem.path),
            problem and without_nul(problem.message),
            len(command.publications),
            without_nul(event.publisher) if isinstance(event, CommandReceived) else None,
            command.offset,
            record.append_time_ms if received else None,
            None if received else record.append_time_ms,
        )
        return (row,)
