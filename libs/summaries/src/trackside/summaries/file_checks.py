"""Tells whether a file that was read before is still the same one, as far as it was read.

Neither the inode nor the time tells: a file that is copied again and again, as rsync does, is a new one each
time and goes on where it ended; one that is written again from its start keeps its inode.
"""

import os
from dataclasses import dataclass
from typing import Literal

COMPARED = 64
"""Bytes at the start of a file, and before where reading ended, that are compared: the first record of an
event file has the time it was made, and each record ends with its checksum."""

ChangeProblem = Literal["file_shrunk", "file_replaced"]


@dataclass(frozen=True, slots=True)
class FileEnds:
    """The first bytes of a file, and those before the position `end` up to which it was read."""

    end: int
    first: bytes
    last: bytes


def ends_at(descriptor: int, end: int) -> FileEnds:
    """Returns what is compared of a file that was read up to `end`. Raises OSError."""
    start = max(0, end - COMPARED)
    first = os.pread(descriptor, min(COMPARED, end), 0)
    return FileEnds(end, first, os.pread(descriptor, end - start, start))


def change_of(descriptor: int, known: FileEnds) -> ChangeProblem | None:
    """Returns how a file changed where it was read before, None where it did not. Raises OSError."""
    if os.fstat(descriptor).st_size < known.end:
        return "file_shrunk"
    return None if ends_at(descriptor, known.end) == known else "file_replaced"
