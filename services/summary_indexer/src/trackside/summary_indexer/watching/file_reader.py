"""Reads one event file from where the log ends, in a thread: checks it, decodes it, encodes its records."""

import os
from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import structlog

from trackside.artifacts.errors import ArtifactError
from trackside.contracts.envelope.message import Message
from trackside.summaries.directories import AccessProblem, FileFormat, open_below, problem_of
from trackside.summaries.event_files.mindspore import graph_of_file
from trackside.summaries.event_files.reading import (
    FileProblem,
    Piece,
    RecordDecoder,
    lineage_decoder_of,
    read_from,
)
from trackside.summaries.event_files.values import Decoded, Segment, SummaryItem
from trackside.summaries.file_checks import ChangeProblem, change_of, fingerprint_of
from trackside.summary_indexer.watching.packing import ItemPacker
from trackside.summary_indexer.watching.records import TagLimit, item_messages, items_of, point_messages

log = structlog.get_logger("trackside.summary_indexer")

REMEMBERED_FILES = 1_000
"""Files whose decoders are kept, to go on without decoding what is before."""
MAX_GRAPH_BYTES = 128 * 1024 * 1024
"""Bytes of a graph file that is read."""

ReadProblem = (
    FileProblem | ChangeProblem | AccessProblem | Literal["damaged_graph", "store_failed", "record_too_long"]
)


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file of a job: its id in the log, its number in the job, and where it is."""

    job: str
    number: int
    base: str
    path: str
    name: str
    format: FileFormat


@dataclass(frozen=True, slots=True)
class ReadStep:
    """What is to be written of one piece: the messages of the bytes from `start` to `end`.

    `problem` says why reading stops at `end`; after a record that is too long it goes on there. `records` are
    those of the file. `fingerprint` tells another file from it, as far as `end`.
    """

    start: int
    end: int
    messages: list[Message]
    records: int = 0
    points: int = 0
    items: int = 0
    fingerprint: str = ""
    problem: ReadProblem | None = None
    reason: str = ""


@dataclass(slots=True)
class Reading:
    """A file that is read: how far the log has it, and what is wrong there.

    `is_exhausted`: it has no more steps. `is_overtaken`: the log has other positions of it, or not its job.
    """

    steps: Generator[ReadStep]
    end: int
    problem: str = ""
    is_exhausted: bool = False
    is_overtaken: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether the next step is to be taken."""
        return not (self.is_exhausted or self.is_overtaken)


@dataclass(slots=True)
class _Remembered:
    end: int
    fingerprint: str
    decoder: RecordDecoder | None


class FileReader:
    """Reads files; remembers of the newest ones what later records need. One thread at a time may use it."""

    def __init__(self, packer: ItemPacker, remembered: int = REMEMBERED_FILES) -> None:
        self._packer = packer
        self._most = remembered
        self._remembered: OrderedDict[tuple[str, str], _Remembered] = OrderedDict()

    def read(self, file: JobFile, start: int, limit: TagLimit, fingerprint: str = "") -> Generator[ReadStep]:
        """Yields what a file holds from a position on; the last step may have a problem.

        An OSError is such a problem. The next step is taken once this one is in the log. `fingerprint` is the
        one of the step that ended at `start`; if it is not known, another file may be taken for this one.
        """
        key = (file.job, file.name)
        remembered = self._remembered.get(key)
        if remembered is not None and remembered.end != start:
            remembered = None
        fingerprint = fingerprint or (remembered.fingerprint if remembered is not None else "")
        at = start
        try:
            descriptor = open_below(file.base, f"{file.path}/{file.name}")
            with os.fdopen(descriptor, "rb", buffering=0) as opened:
                problem = change_of(opened.fileno(), start, fingerprint)
                if problem is not None:
                    yield ReadStep(start, start, [], problem=problem)
                    return
                if fingerprint and os.fstat(opened.fileno()).st_size == start:
                    return  # nothing new, and what is before need not be decoded to know that
                if file.format == "mindspore_graph":
                    yield from self._read_graph(file, opened.fileno(), start, limit)
                    return
                decoder = None
                if remembered is not None and remembered.fingerprint == fingerprint:
                    decoder = remembered.decoder
                choose = lineage_decoder_of if file.format == "mindspore_lineage" else None
                pieces = read_from(opened, start, decoder, choose=choose)
                while (piece := next(pieces, None)) is not None:
                    self._remembered.pop(key, None)  # its decoder is ahead until this step is done
                    # The piece is of another file if this one was written again after the last one.
                    problem = change_of(opened.fileno(), at, fingerprint)
                    if problem is not None:
                        yield ReadStep(at, at, [], problem=problem)
                        return
                    step = self._step(file, piece, limit, opened.fileno())
                    decoder, at, fingerprint = piece.decoder, step.end, step.fingerprint
                    is_over = step.problem == "store_failed"
                    given = [step]
                    del piece, step  # while this file waits for the next one, nothing of it is kept
                    yield given.pop()
                    if is_over:
                        return
                    self._remember(key, _Remembered(at, fingerprint, decoder))
        except OSError as error:
            yield ReadStep(at, at, [], problem=problem_of(error), reason=error.strerror or str(error))

    def _step(self, file: JobFile, piece: Piece, limit: TagLimit, descriptor: int) -> ReadStep:
        try:
            messages, points, items = self._messages(file, piece.decoded, limit)
        except ArtifactError as error:
            return ReadStep(piece.start, piece.start, [], problem="store_failed", reason=str(error))
        if piece.decoded.unknown:
            log.info("values of unknown kinds skipped", file=file.name, kinds=piece.decoded.unknown)
        fingerprint = fingerprint_of(descriptor, piece.end) if piece.end else ""
        counts = piece.records, points, items
        return ReadStep(piece.start, piece.end, messages, *counts, fingerprint, piece.problem)

    def _messages(self, file: JobFile, decoded: Decoded, limit: TagLimit) -> tuple[list[Message], int, int]:
        of_points = list(point_messages(file.job, file.number, decoded, limit))
        packed = self._packer.pack(file.number, items_of(decoded, limit))
        of_items = list(item_messages(file.job, packed))
        points = sum(len(series.steps) for message in of_points for series in message.series)
        return [*of_points, *of_items], points, sum(len(message.items) for message in of_items)

    def _read_graph(self, file: JobFile, descriptor: int, start: int, limit: TagLimit) -> Iterator[ReadStep]:
        """Yields the graph of a graph file, which has no records: it is read whole, once."""
        found = os.fstat(descriptor)
        if start or not found.st_size:
            return
        if found.st_size > MAX_GRAPH_BYTES:
            yield ReadStep(0, 0, [], problem="record_too_long")
            return
        try:
            graph = graph_of_file(os.pread(descriptor, found.st_size, 0))
        except ValueError as error:
            yield ReadStep(0, 0, [], problem="damaged_graph", reason=str(error))
            return
        item = SummaryItem("graph", file.name, 0, found.st_mtime_ns // 1_000_000, graph)
        piece = Piece(Decoded([Segment(items=[item])]), 1, 0, found.st_size)
        yield self._step(file, piece, limit, descriptor)

    def _remember(self, key: tuple[str, str], remembered: _Remembered) -> None:
        self._remembered[key] = remembered
        self._remembered.move_to_end(key)
        if len(self._remembered) > self._most:
            self._remembered.popitem(last=False)


class ComparedFile(NamedTuple):
    """A file to be compared: its path below the directory, where reading ended, and its fingerprint then."""

    path: str
    end: int
    fingerprint: str


def compare_files(base: str, files: Sequence[ComparedFile]) -> list[bool]:
    """Returns for each file whether it is still the one that was read; one that can't be opened is not."""
    return [_is_same(base, file) for file in files]


def _is_same(base: str, file: ComparedFile) -> bool:
    try:
        descriptor = open_below(base, file.path)
    except OSError:
        return False
    try:
        return change_of(descriptor, file.end, file.fingerprint) is None
    except OSError:
        return False
    finally:
        os.close(descriptor)
