"""Imports an exported stream under its name or another one, to be looked into.

Nothing of it reaches the log of events: no service sees it, so nothing of it is ever run or answered.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.codec import CODEC, UndecodableError
from trackside.contracts.commands import RULES
from trackside.contracts.ids import IDENTIFIER_RULE, is_identifier, new_id
from trackside.contracts.imports import StreamImported
from trackside.contracts.message import Record
from trackside.contracts.topics import Topics, partition_of
from trackside.domain.stream import Stream, UnsupportedRulesError, fold
from trackside.eventlog.log import Log, Outgoing
from trackside.eventlog.record_writer import RecordWriter
from trackside.projections.snapshots import fold_name
from trackside.replay.history.errors import (
    AlreadyImportedError,
    BadNameError,
    DamagedFileError,
    LiveTargetError,
    UnsupportedFileError,
)
from trackside.replay.history.history import find_live
from trackside.replay.transfer.file_format import (
    LONGEST_LINE_BYTES,
    Head,
    Line,
    LineReader,
    Renaming,
    Tail,
    state_digest,
)
from trackside.replay.transfer.imported_streams import added_headers, find_imported

BATCH_BYTES = 262_144
BATCH_RECORDS = 1_000
_RECORD_OVERHEAD = 1_000
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Imported:
    """What was imported; `compared` says whether its state could be compared: both folds were the same."""

    stream: str
    head: Head
    tail: Tail
    compared: bool


@dataclass(frozen=True, slots=True)
class _Read:
    head: Head
    tail: Tail


async def import_file(
    log: Log,
    topics: Topics,
    path: Path,
    name: str = "",
    told: Progress = lambda done, total: None,
    instance: str = "cli",
) -> Imported:
    """Imports a file, once every line of it was checked and folded.

    Raises DamagedFileError, UnsupportedFileError, LiveTargetError for a stream that the log has,
    AlreadyImportedError, BadNameError, OSError.
    """
    with path.open("rb") as file:
        read = _checked(file, name)
        stream_id = name or read.head.stream
        await _check_target(log, topics, stream_id)
        await log.ensure([topics.imports])
        compared = read.tail.fold == fold_name()
        file.seek(0)
        done = await _append(log, topics, file, read, stream_id, RecordWriter("replay", instance), told)
    winner = await find_imported(log, topics, stream_id)
    if winner is None or winner.begin != done:
        raise AlreadyImportedError(f"{stream_id!r} was imported by someone else meanwhile; theirs counts")
    return Imported(stream_id, read.head, read.tail, compared)


def _checked(file: BinaryIO, name: str) -> _Read:
    """Reads a file to its end and folds it, under the new name if there is one."""
    lines = LineReader()
    head = lines.head(file.readline(LONGEST_LINE_BYTES))
    stream_id = name or head.stream
    if not is_identifier(stream_id):
        raise BadNameError(f"{stream_id!r} can't name a stream: expected {IDENTIFIER_RULE}; use --as")
    if head.rules != RULES:
        raise UnsupportedFileError(f"the stream was begun with rules {head.rules}, this release has {RULES}")
    names = {head.stream: Renaming(head.stream, head.stream), stream_id: Renaming(head.stream, stream_id)}
    streams = [(Stream(name, head.partition), renaming) for name, renaming in names.items()]
    tail: Tail | None = None
    records = 0
    for line in _lines(file, lines):
        if isinstance(line, Tail):
            tail = line
            continue
        if tail is not None:
            raise lines.damaged("comes behind the trailer")
        for stream, renaming in streams:
            _fold(stream, renaming, line, head, lines)
        records += 1
    if tail is None:
        raise DamagedFileError(f"the file ends at line {lines.number}, without its trailer: it was cut off")
    if not records == tail.records == head.records:
        raise lines.damaged(f"says {tail.records} records, the header {head.records}; there are {records}")
    _compare([stream for stream, _ in streams], tail)
    return _Read(head, tail)


def _compare(streams: Sequence[Stream], tail: Tail) -> None:
    """Checks the state under the stream's own name, then under its new one; another fold gives another."""
    if tail.fold != fold_name():
        return
    if state_digest(streams[0]) != tail.state_sha256:
        raise DamagedFileError("its records don't fold to the state that the trailer says")
    if state_digest(streams[-1]) != tail.state_sha256:
        raise BadNameError(
            f"as {streams[-1].stream_id!r} it would not be the same: waits of its retries are drawn from the "
            "names of its tasks; use another name, or its own"
        )


def _lines(file: BinaryIO, lines: LineReader) -> Iterator[Line | Tail]:
    """Gives the records of a file behind its header, and its trailer."""
    while octets := file.readline(LONGEST_LINE_BYTES):
        body = lines.body(octets)
        yield lines.tail(body) if "state_sha256" in body else lines.record(body)


def _fold(stream: Stream, renaming: Renaming, line: Line, head: Head, lines: LineReader) -> None:
    if CODEC.envelope(line.headers).stream != head.stream:
        raise lines.damaged(f"is not a record of stream {head.stream!r}")
    try:
        renamed = renaming.line(line)
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise lines.damaged("holds no message") from None
    envelope = CODEC.envelope(renamed.headers)
    try:
        message = CODEC.decode(envelope, renamed.value)
        fold(stream, Record("", head.partition, line.offset, line.time_ms, envelope, message), AGGREGATES)
    except (UndecodableError, UnsupportedRulesError) as error:
        raise UnsupportedFileError(f"line {lines.number}: {error}") from error


async def _check_target(log: Log, topics: Topics, stream_id: str) -> None:
    if await find_live(log, topics, stream_id) is not None:
        raise LiveTargetError(f"the log has a stream {stream_id!r}; import it under another name with --as")
    if await find_imported(log, topics, stream_id) is not None:
        raise AlreadyImportedError(f"{stream_id!r} was imported before; use another name with --as")


async def _append(
    log: Log,
    topics: Topics,
    file: BinaryIO,
    read: _Read,
    stream_id: str,
    writer: RecordWriter,
    told: Progress,
) -> int:
    """Appends the records, then the one that completes them; gives the offset of the first."""
    topic, import_id = topics.imports, new_id()
    partition = partition_of(stream_id, topic.partitions)
    lines, renaming = LineReader(), Renaming(read.head.stream, stream_id)
    lines.head(file.readline(LONGEST_LINE_BYTES))
    batch: list[Outgoing] = []
    size, done, begin = 0, 0, -1
    for line in _lines(file, lines):
        record = None if isinstance(line, Tail) else _outgoing(renaming.line(line), read.head, import_id)
        weight = 0 if record is None else len(record.value or b"") + _RECORD_OVERHEAD
        if batch and (record is None or size + weight > BATCH_BYTES or len(batch) == BATCH_RECORDS):
            appended = await log.append(topic.name, partition, batch)
            begin = appended.offset if begin < 0 else begin
            done += len(batch)
            told(done, read.head.records)
            batch, size = [], 0
        if record is not None:
            batch.append(record)
            size += weight
    if done != read.head.records:
        raise DamagedFileError(f"the file changed while it was imported: it has {done} records now")
    complete = _complete(read, stream_id, import_id, begin)
    await log.append(topic.name, partition, [writer.single(stream_id, complete)])
    return begin


def _outgoing(line: Line, head: Head, import_id: str) -> Outgoing:
    added = added_headers(import_id, head.partition, line)
    return Outgoing(line.key, line.value, [*line.headers, *added])


def _complete(read: _Read, stream_id: str, import_id: str, begin: int) -> StreamImported:
    head, tail = read.head, read.tail
    return StreamImported(
        import_id=import_id,
        stream=stream_id,
        original_stream=head.stream,
        rules=head.rules,
        partition=head.partition,
        first_offset=head.first_offset,
        last_offset=head.last_offset,
        records=head.records,
        begin=begin,
        sha256=tail.sha256,
        fold=tail.fold,
        state_sha256=tail.state_sha256,
    )
