"""Exports a stream: its records as they are in the log, to a self-contained file."""

from collections.abc import Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass

from trackside.aggregates.registry import AGGREGATES
from trackside.domain.folding.fold import fold
from trackside.domain.streams.stream import Stream
from trackside.replay.history.errors import SilentLogError
from trackside.replay.history.held_artifacts import HeldArtifacts
from trackside.replay.history.recorded_stream import RecordedStream, check_readable
from trackside.replay.transfer.file_format import (
    ExportedRecord,
    ExportHeader,
    ExportTrailer,
    LineWriter,
    trailer_of,
)
from trackside.replay.transfer.imported_streams import original_headers

WriteBytes = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """The header and the trailer of an exported file, and the offsets of records that are not in it."""

    header: ExportHeader
    trailer: ExportTrailer
    left_out: Collection[int]


async def write_export(
    recorded: RecordedStream, write: WriteBytes, held: HeldArtifacts | None = None
) -> ExportSummary:
    """Writes a stream as it is now, line by line; the log is read twice, so that memory stays bounded.

    Records without effect because of their signature are left out: so the file folds to the same state where
    the keys of this installation are not known, and under another name.
    Nothing is written before the stream was read once to its end; `held` takes in what it has of artifacts.
    Raises SilentLogError, ForgottenStreamError, KeyMissingError.
    """
    exported = await _survey(recorded, held)
    header = exported.header
    lines, records = LineWriter(), 0
    write(lines.line(header.as_json()))
    async with aclosing(recorded.records()) as taken:
        async for record, entry in taken:
            if record.offset > header.last_offset:
                break
            if record.offset in exported.left_out:
                continue
            assert entry.value is not None  # or it would be no record
            line = ExportedRecord(
                record.offset, record.append_time_ms, entry.key, original_headers(entry), entry.value
            )
            write(lines.line(line.as_json()))
            records += 1
    if records != header.records:
        raise SilentLogError(f"the log gave {header.records} records of {header.stream}, then {records}")
    write(lines.trailer(exported.trailer))
    return exported


async def _survey(recorded: RecordedStream, held: HeldArtifacts | None) -> ExportSummary:
    """Reads a stream once, for the header and the trailer."""
    stream = Stream(recorded.stream_id, recorded.partition)
    first, last, records, left_out = -1, -1, 0, set[int]()
    async with aclosing(recorded.records()) as taken:
        async for record, entry in taken:
            outcome = fold(stream, record, AGGREGATES)
            if record.distrust:
                left_out.add(record.offset)
                continue
            if held is not None:
                held.take(record, outcome, entry.value or b"")
            async for again, became, read in recorded.read_again(stream, entry.offset + 1):
                if held is not None:
                    held.take(again, became, read.value or b"")
            first = record.offset if first < 0 else first
            last = record.offset
            records += 1
    check_readable(stream)
    stream.public_key = ""  # the file is not encrypted
    header = ExportHeader(recorded.stream_id, stream.rules, recorded.partition, first, last, records)
    return ExportSummary(header, trailer_of(stream, records), left_out)
