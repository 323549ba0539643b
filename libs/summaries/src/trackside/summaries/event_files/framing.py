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
    crc_of, footer = google_crc32c.value, _CRC.unpack_from
    lengths: dict[bytes, int] = {}  # most records are as long as an earlier one: its header was checked
    at, size = 0, len(piece)
    while at + HEADER <= size:
        header = piece[at : at + HEADER]
        length = lengths.get(header)
        if length is None:
            length, length_crc = _LENGTH_AND_CRC.unpack(header)
            if masked(crc_of(header[:8])) != length_crc:
                found.problem = "damaged_length"
                break
            lengths[header] = length
        body_at = at + HEADER
        body_end = body_at + length
        found.needs = body_end + FOOTER - at
        if length > longest:
            found.problem = "record_too_long"
            break
        if body_end + FOOTER > size:
            break
        body = piece[body_at:body_end]
        crc = crc_of(body)
        # As `masked` does; a call here would take a tenth of the time.
        if (((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF) != footer(piece, body_end)[0]:
            found.problem = "damaged_record"
            break
        bodies.append(body)
        at = body_end + FOOTER
        ends.append(at)
        found.needs = 0
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
