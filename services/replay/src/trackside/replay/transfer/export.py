"""Exports a stream: its records as they are in the log, in a file that stands for itself."""

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from trackside.aggregates.registry import AGGREGATES
from trackside.domain.stream import Stream, fold
from trackside.eventlog.decode import tombstone_error
from trackside.replay.history.errors import SilentLogError
from trackside.replay.history.history import History
from trackside.replay.transfer.file_format import Head, Line, LineWriter, Tail, tail_of
from trackside.replay.transfer.imported_streams import original_headers

Write = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Exported:
    """What was exported."""

    head: Head
    tail: Tail


async def export(history: History, write: Write) -> Exported:
    """Writes a stream as it is now, line by line; the log is read twice, so nothing waits in memory.

    Nothing is written before the stream was read once to its end. Raises SilentLogError.
    """
    exported = await _surveyed(history)
    head = exported.head
    lines, records = LineWriter(), 0
    write(lines.line(head.as_json()))
    async with aclosing(history.taken()) as taken:
        async for record, entry in taken:
            if record.offset > head.last_offset:
                break
            if entry.value is None:
                raise tombstone_error(entry)
            line = Line(record.offset, record.append_time_ms, entry.key, original_headers(entry), entry.value)
            write(lines.line(line.as_json()))
            records += 1
    if records != head.records:
        raise SilentLogError(f"the log gave {head.records} records of {head.stream}, then {records}")
    write(lines.trailer(exported.tail))
    return exported


async def _surveyed(history: History) -> Exported:
    """Reads a stream once, for what stands before its records and behind them."""
    stream = Stream(history.stream_id, history.partition)
    first, last, records = -1, -1, 0
    async with aclosing(history.taken()) as taken:
        async for record, _ in taken:
            fold(stream, record, AGGREGATES)
            first = record.offset if first < 0 else first
            last = record.offset
            records += 1
    head = Head(history.stream_id, stream.rules, history.partition, first, last, records)
    return Exported(head, tail_of(stream, records))
