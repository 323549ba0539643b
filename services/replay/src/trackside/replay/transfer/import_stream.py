"""Imports an exported stream under its name or another one, for queries.

No record of it is written to the log of events: no service sees it, so none of its commands is run again.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from trackside.aggregates.registry import AGGREGATES, CODEC
from trackside.artifacts.blobs.blobs import Blob
from trackside.artifacts.errors import StoreMissing
from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier, new_id
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.contracts.streams.commands import RULES
from trackside.contracts.streams.imports import StreamImported
from trackside.contracts.wire.codec import UndecodableError
from trackside.domain.folding.fold import fold
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import message_of
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log, Outgoing
from trackside.projections.writing.snapshots import fold_name
from trackside.replay.history.errors import (
    AlreadyImportedError,
    BadNameError,
    DamagedFileError,
    LiveTargetError,
    UnsupportedFileError,
)
from trackside.replay.history.recorded_stream import find_live
from trackside.replay.transfer.archive import Archive, open_export
from trackside.replay.transfer.file_format import (
    MAX_LINE_BYTES,
    ExportedRecord,
    ExportHeader,
    ExportTrailer,
    LineReader,
    StreamRenaming,
    state_digest,
)
from trackside.replay.transfer.imported_streams import find_imported, origin_headers

BATCH_BYTES = 262_144
BATCH_RECORDS = 1_000
_RECORD_OVERHEAD = 1_000
ImportProgress = Callable[[int, int], None]


def refuse_blobs(archive: Archive) -> None:
    """Saves no blobs: the default without a store. Raises StoreMissing."""
    raise StoreMissing(f"the file has {len(archive.blobs)} blobs, and there is no store to save them in")


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """The result of an import; `compared`: the state was compared, as the fold has the same version.

    `blobs` are those that came with it; None if the file has only the stream.
    """

    stream: str
    header: ExportHeader
    trailer: ExportTrailer
    compared: bool
    blobs: Sequence[Blob] | None = None


@dataclass(frozen=True, slots=True)
class _CheckedFile:
    header: ExportHeader
    trailer: ExportTrailer


async def import_file(
    log: Log,
    topics: Topics,
    path: Path,
    name: str = "",
    on_progress: ImportProgress = lambda done, total: None,
    receive: Callable[[Archive], None] = refuse_blobs,
) -> ImportSummary:
    """Imports a file, after every line of it was checked and folded.

    If it has blobs, `receive` saves them before the first record is appended, once it has checked them all.
    Raises DamagedFileError, UnsupportedFileError, LiveTargetError for a stream that the log has,
    AlreadyImportedError, BadNameError, OSError, and what `receive` raises.
    """
    with open_export(path) as (file, archive):
        checked = _check_file(file, name)
        stream_id = name or checked.header.stream
        await _check_target(log, topics, stream_id)
        if archive is not None:
            await asyncio.to_thread(receive, archive)
        await log.ensure([topics.imports])
        compared = checked.trailer.fold == fold_name()
        file.seek(0)
        done = await _append(
            log, topics, file, checked, stream_id, RecordWriter("replay", "cli"), on_progress
        )
    winner = await find_imported(log, topics, stream_id)
    if winner is None or winner.begin != done:
        raise AlreadyImportedError(f"{stream_id!r} was imported by another process; that import is used")
    return ImportSummary(
        stream_id, checked.header, checked.trailer, compared, None if archive is None else archive.blobs
    )


def _check_file(file: IO[bytes], name: str) -> _CheckedFile:
    """Reads a file to its end and folds it, also under the new name if there is one."""
    lines = LineReader()
    header = lines.header(file.readline(MAX_LINE_BYTES))
    stream_id = name or header.stream
    if not is_identifier(stream_id):
        raise BadNameError(f"{stream_id!r} can't name a stream: expected {IDENTIFIER_RULE}; use --as")
    if header.rules != RULES:
        raise UnsupportedFileError(
            f"the stream was begun with rules {header.rules}, this release has {RULES}"
        )
    names = {
        header.stream: StreamRenaming(header.stream, header.stream),
        stream_id: StreamRenaming(header.stream, stream_id),
    }
    streams = [(Stream(name, header.partition), renaming) for name, renaming in names.items()]
    trailer: ExportTrailer | None = None
    records = 0
    for line in _records(file, lines):
        if isinstance(line, ExportTrailer):
            trailer = line
            continue
        if trailer is not None:
            raise lines.damaged("comes after the trailer")
        for stream, renaming in streams:
            _fold(stream, renaming, line, header, lines)
            _read_again(file, stream, renaming, line.offset)
        records += 1
    if trailer is None:
        raise DamagedFileError(f"the file ends at line {lines.number}, without its trailer: it was cut off")
    if not records == trailer.records == header.records:
        raise lines.damaged(
            f"says {trailer.records} records, the header {header.records}; there are {records}"
        )
    _check_state([stream for stream, _ in streams], trailer)
    return _CheckedFile(header, trailer)


def _check_state(streams: Sequence[Stream], trailer: ExportTrailer) -> None:
    """Checks the state under the stream's own name, then under the new one; not if the fold differs."""
    if trailer.fold != fold_name():
        return
    if state_digest(streams[0]) != trailer.state_sha256:
        raise DamagedFileError("its records don't fold to the state that the trailer says")
    if state_digest(streams[-1]) != trailer.state_sha256:
        raise BadNameError(
            f"as {streams[-1].stream_id!r} it would not be the same: waits of its retries are drawn from the "
            "names of its tasks; use another name, or its own"
        )


def _records(file: IO[bytes], lines: LineReader) -> Iterator[ExportedRecord | ExportTrailer]:
    """Yields the records of a file after its header, then its trailer."""
    while data := file.readline(MAX_LINE_BYTES):
        body = lines.body(data)
        yield lines.trailer(body) if "state_sha256" in body else lines.record(body)


def _fold(
    stream: Stream, renaming: StreamRenaming, line: ExportedRecord, header: ExportHeader, lines: LineReader
) -> None:
    if CODEC.envelope(line.headers).stream != header.stream:
        raise lines.damaged(f"is not a record of stream {header.stream!r}")
    try:
        renamed = renaming.line(line)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise lines.damaged("holds no message") from None
    envelope = CODEC.envelope(renamed.headers)
    try:
        message = message_of(envelope, renamed.value)
    except UndecodableError as error:
        raise UnsupportedFileError(f"line {lines.number}: {error}") from error
    fold(stream, Record("", header.partition, line.offset, line.time_ms, envelope, message), AGGREGATES)


def _read_again(file: IO[bytes], stream: Stream, renaming: StreamRenaming, last: int) -> None:
    """Folds what a stream lacks that was parked and goes on with the record at the offset `last`."""
    place = file.tell()
    while (released := stream.released) is not None:
        file.seek(0)
        lines = LineReader()
        header = lines.header(file.readline(MAX_LINE_BYTES))
        for line in _records(file, lines):
            if isinstance(line, ExportTrailer) or line.offset > last:
                break
            if line.offset > released.read_to:
                released.read_to = line.offset
                _fold(stream, renaming, line, header, lines)
        if stream.released is released:
            stream.released = None
    file.seek(place)


async def _check_target(log: Log, topics: Topics, stream_id: str) -> None:
    if await find_live(log, topics, stream_id) is not None:
        raise LiveTargetError(f"the log has a stream {stream_id!r}; import it under another name with --as")
    if await find_imported(log, topics, stream_id) is not None:
        raise AlreadyImportedError(f"{stream_id!r} was imported before; use another name with --as")


async def _append(
    log: Log,
    topics: Topics,
    file: IO[bytes],
    checked: _CheckedFile,
    stream_id: str,
    writer: RecordWriter,
    on_progress: ImportProgress,
) -> int:
    """Appends the records, then the one that completes them; returns the offset of the first."""
    topic, import_id = topics.imports, new_id()
    partition = partition_of(stream_id, topic.partitions)
    lines, renaming = LineReader(), StreamRenaming(checked.header.stream, stream_id)
    lines.header(file.readline(MAX_LINE_BYTES))
    batch: list[Outgoing] = []
    batch_bytes, done, begin = 0, 0, -1
    for line in _records(file, lines):
        record = (
            None
            if isinstance(line, ExportTrailer)
            else _outgoing(renaming.line(line), checked.header, import_id)
        )
        record_bytes = 0 if record is None else len(record.value or b"") + _RECORD_OVERHEAD
        if batch and (
            record is None or batch_bytes + record_bytes > BATCH_BYTES or len(batch) == BATCH_RECORDS
        ):
            appended = await log.append(topic.name, partition, batch)
            begin = appended.offset if begin < 0 else begin
            done += len(batch)
            on_progress(done, checked.header.records)
            batch, batch_bytes = [], 0
        if record is not None:
            batch.append(record)
            batch_bytes += record_bytes
    if done != checked.header.records:
        raise DamagedFileError(f"the file changed while it was imported: it has {done} records now")
    complete = _complete(checked, stream_id, import_id, begin)
    await log.append(topic.name, partition, [writer.single(stream_id, complete)])
    return begin


def _outgoing(line: ExportedRecord, header: ExportHeader, import_id: str) -> Outgoing:
    added = origin_headers(import_id, header.partition, line)
    return Outgoing(line.key, line.value, [*line.headers, *added])


def _complete(checked: _CheckedFile, stream_id: str, import_id: str, begin: int) -> StreamImported:
    header, trailer = checked.header, checked.trailer
    return StreamImported(
        import_id=import_id,
        stream=stream_id,
        original_stream=header.stream,
        rules=header.rules,
        partition=header.partition,
        first_offset=header.first_offset,
        last_offset=header.last_offset,
        records=header.records,
        begin=begin,
        sha256=trailer.sha256,
        fold=trailer.fold,
        state_sha256=trailer.state_sha256,
    )
