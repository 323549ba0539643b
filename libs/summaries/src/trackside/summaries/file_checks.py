"""Tells whether a file that was read before is still the same one, as far as it was read.

Neither the inode nor the time tells: a file that is copied again and again, as rsync does, is a new one each
time and goes on where it ended; one that is written again from its start keeps its inode.
"""

import os
from hashlib import blake2b
from typing import Literal

COMPARED = 64
"""Bytes at the start of a file, and before where reading ended, that are compared: the first record of an
event file has the time it was made, and each record ends with its checksum."""
_READ_AT_ONCE = 4_096

ChangeProblem = Literal["file_shrunk", "file_replaced"]


def fingerprint_of(descriptor: int, end: int) -> str:
    """Returns a hash of the first bytes of a file and of those before `end`, as 16 hexadecimal digits.

    Raises OSError.
    """
    if end <= _READ_AT_ONCE:
        whole = os.pread(descriptor, end, 0)
        compared = whole[:COMPARED] + whole[-COMPARED:]
    else:
        compared = os.pread(descriptor, COMPARED, 0) + os.pread(descriptor, COMPARED, end - COMPARED)
    return blake2b(compared, digest_size=8).hexdigest()


def change_of(descriptor: int, end: int, fingerprint: str) -> ChangeProblem | None:
    """Returns how a file that was read up to `end` changed before that byte, None where it did not.

    Without a fingerprint of what was read, only the size is compared. Raises OSError.
    """
    if os.fstat(descriptor).st_size < end:
        return "file_shrunk"
    if fingerprint and end and fingerprint_of(descriptor, end) != fingerprint:
        return "file_replaced"
    return None
