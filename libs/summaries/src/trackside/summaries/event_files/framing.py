"""The frames of event files: TFRecord's, which TensorBoard and MindSpore share.

A frame is the length of its body (8 bytes, little-endian), the masked CRC-32C of those 8 bytes, the body, and
the masked CRC-32C of the body
(https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details).
"""

import struct
from dataclasses import dataclass, field
from typing import Literal

import google_crc32c

HEADER = 12
FOOTER = 4
LONGEST_RECORD = 128 * 1024 * 1024
"""Bytes of a body that is still read; a longer one is passed over."""

FrameProblem = Literal["damaged_length", "damaged_record", "record_too_long"]

_LENGTH_AND_CRC = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8


@dataclass(slots=True)
class Frames:
    """The whole records in a piece of a file.

    `ends[i]` is where the frame of `bodies[i]` ends, counted from the piece's first byte; `to` is where
    reading goes on. `needs` is how many bytes the next frame has from `to` on: 0 where its header is not
    there yet. Where `problem` is not None, the frame at `to` can't be read.
    """

    bodies: list[bytes] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    to: int = 0
    needs: int = 0
    problem: FrameProblem | None = None


def frames(piece: bytes, longest: int = LONGEST_RECORD) -> Frames:
    """Returns the whole records of a piece that begins at a frame; checks both checksums of each."""
    found = Frames()
    bodies, ends = found.bodies, found.ends
    crc_of, header, footer = google_crc32c.value, _LENGTH_AND_CRC.unpack_from, _CRC.unpack_from
    at, size = 0, len(piece)
    while at + HEADER <= size:
        length, length_crc = header(piece, at)
        if masked(crc_of(piece[at : at + 8])) != length_crc:
            found.problem = "damaged_length"
            break
        body_at = at + HEADER
        end = body_at + length + FOOTER
        found.needs = end - at
        if length > longest:
            found.problem = "record_too_long"
            break
        if end > size:
            break
        body = piece[body_at : end - FOOTER]
        if masked(crc_of(body)) != footer(piece, end - FOOTER)[0]:
            found.problem = "damaged_record"
            break
        bodies.append(body)
        ends.append(end)
        found.needs = 0
        at = end
    found.to = at
    return found


def frame(body: bytes) -> bytes:
    """Returns a record as it stands in a file."""
    length = struct.pack("<Q", len(body))
    checks = (masked(google_crc32c.value(data)) for data in (length, body))
    return length + _CRC.pack(next(checks)) + body + _CRC.pack(next(checks))


def masked(crc: int) -> int:
    """Returns a checksum as it is stored: rotated right by 15 bits, and a constant added."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF
