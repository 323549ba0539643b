"""Reads event files piece by piece, from any record on."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, cast

from google.protobuf.message import DecodeError

from trackside.summaries.event_files import framing, mindspore, tensorboard
from trackside.summaries.event_files.mindspore_lineage import LineageDecoder
from trackside.summaries.event_files.protos.tensorboard_pb2 import Event
from trackside.summaries.event_files.values import Decoded

PIECE = 4 * 1024 * 1024
"""Bytes that are read at once; a longer record is read whole."""

FileProblem = framing.FrameProblem | Literal["not_an_event", "unknown_format", "file_replaced"]


class RecordDecoder(Protocol):
    """What knows the records of one format."""

    def decode(self, bodies: list[bytes]) -> tuple[Decoded, int]:
        """Returns what the records hold, and how many were decoded."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What the bytes from `start` to `end` of a file hold.

    `problem` says why the record at `end` can't be read. Of one that is too long, `end` is behind it: reading
    goes on there. `decoder` has decoded the records up to `end`, until the next piece is taken.
    """

    decoded: Decoded
    records: int
    start: int
    end: int
    problem: FileProblem | None = None
    decoder: RecordDecoder | None = None


ChooseDecoder = Callable[[bytes], RecordDecoder | None]
"""Returns the decoder of a file whose first record is this, or None for an unknown format."""


class SeekableFile(Protocol):
    """What reading needs of an open file."""

    def seek(self, to: int, whence: int = 0) -> int:
        """Moves to a byte."""

    def read(self, count: int) -> bytes:
        """Returns the next bytes, at most that many."""


def read(path: str, start: int = 0, longest: int = framing.LONGEST_RECORD) -> Iterator[Piece]:
    """Yields what a file holds from a record on, up to its last whole record or the first that can't be read.

    `start` is 0 or the `end` of a piece. A record that is not whole yet ends the file as if it was not there.
    Links are not followed. Raises OSError.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as file:
        yield from read_from(cast("SeekableFile", file), start, longest=longest)


def read_from(
    file: SeekableFile,
    start: int,
    decoder: RecordDecoder | None = None,
    longest: int = framing.LONGEST_RECORD,
    choose: ChooseDecoder | None = None,
) -> Iterator[Piece]:
    """Yields what an open file holds, as `read` does.

    `decoder` is the one of the last piece, whose `end` is `start`; without it, the records before `start` are
    decoded first: where none ends at `start`, it is another file. `choose` is `decoder_of` unless the name of
    the file says more than its first record, see `lineage_decoder_of`. Raises OSError.
    """
    choose = choose or decoder_of
    if start and decoder is None:
        decoder, reached = _decoder_at(file, start, longest, choose)
        if reached != start:
            yield Piece(Decoded(), 0, start, start, "file_replaced")
            return
    yield from _pieces(file, start, decoder, longest, choose)


def _decoder_at(
    file: SeekableFile, start: int, longest: int, choose: ChooseDecoder
) -> tuple[RecordDecoder | None, int]:
    """Returns a decoder that has decoded the records before `start`, and where the last of them ends."""
    decoder: RecordDecoder | None = None
    at = 0
    while at < start:
        found, _ = _next(file, at, min(PIECE, start - at), longest)
        if found.bodies:
            decoder = decoder or choose(found.bodies[0])
            if decoder is None or decoder.decode(found.bodies)[1] < len(found.bodies):
                break
        if found.problem == "record_too_long":
            at += found.needs
        elif found.problem or not found.to:
            break
        at += found.to
    return decoder, at


def _pieces(
    file: SeekableFile, start: int, decoder: RecordDecoder | None, longest: int, choose: ChooseDecoder
) -> Iterator[Piece]:
    at, is_last = start, False
    while not is_last:
        piece, is_last = _piece(file, at, decoder, longest, choose)
        at, decoder = piece.end, piece.decoder
        if piece.records or piece.problem:
            given = [piece]
            del piece  # hundreds of files may be read at once: one that waits here keeps nothing of its piece
            yield given.pop()


def _piece(
    file: SeekableFile, at: int, decoder: RecordDecoder | None, longest: int, choose: ChooseDecoder
) -> tuple[Piece, bool]:
    """Returns the piece at a position, and whether it is the last one."""
    found, whole = _next(file, at, PIECE, longest)
    if found.bodies and decoder is None:
        decoder = choose(found.bodies[0])
        if decoder is None:
            return Piece(Decoded(), 0, at, at, "unknown_format"), True
    decoded, count = decoder.decode(found.bodies) if decoder else (Decoded(), 0)
    problem: FileProblem | None = found.problem
    end = at + found.to
    if count < len(found.bodies):
        problem = "not_an_event"
        end = at + (found.ends[count - 1] if count else 0)
    elif problem == "record_too_long":
        end += found.needs
        if end > file.seek(0, os.SEEK_END):  # it may still be on its way
            problem, end = None, at + found.to
        else:
            whole = False
    is_last = whole or end == at or problem not in (None, "record_too_long")
    return Piece(decoded, count, at, end, problem, decoder), is_last


def _next(file: SeekableFile, at: int, size: int, longest: int) -> tuple[framing.Frames, bool]:
    """Returns the records of the next piece, and whether the file has no more whole ones behind it."""
    file.seek(at)
    piece = _read_up_to(file, size)
    found = framing.frames(piece, longest)
    if not found.to and found.problem is None and found.needs > len(piece) == size:
        file.seek(at)
        piece = _read_up_to(file, found.needs)
        size = found.needs
        found = framing.frames(piece, longest)
    return found, len(piece) < size


def _read_up_to(file: SeekableFile, size: int) -> bytes:
    """Returns that many bytes, or as many as the file has: one read may give fewer."""
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def decoder_of(body: bytes) -> RecordDecoder | None:
    """Returns the decoder of the format that the first record of a file names, or None where it names none.

    Both formats have the version in the same field, so the record is read as one of TensorBoard's.
    """
    try:
        first = Event.FromString(body)
    except DecodeError:
        return None
    version = first.file_version
    if version.lower().startswith(mindspore.VERSION_PREFIX.lower()):
        return mindspore.MindSporeDecoder()
    # Version 1 and files of writers that leave it out are of TensorFlow too, as its own readers take them.
    if version.startswith(tensorboard.VERSION_PREFIX) or first.WhichOneof("what") not in (
        None,
        "file_version",
    ):
        return tensorboard.TensorBoardDecoder()
    return None


def lineage_decoder_of(body: bytes) -> RecordDecoder | None:
    """Returns the decoder of a file whose name is that of a lineage file; None if it is not MindSpore's."""
    return LineageDecoder() if isinstance(decoder_of(body), mindspore.MindSporeDecoder) else None
