"""Files with keys and passwords: which of them may be used, and what is wrong with the others."""

import os
import stat
from pathlib import Path

SHARED = 0o077
"""What others than the owner may do with a file."""
GROUP_READS = 0o040


class PrivateFileError(ValueError):
    """A file with a secret can't be used; the message says why and what to do, and not which file."""


def check_private(path: Path) -> None:
    """Raises PrivateFileError unless `read_private` would read the file."""
    read_private(path, 0)


def read_private(path: Path, max_bytes: int = -1) -> bytes:
    """Reads a file that only its owner may use: the user of this process, or root.

    A file of root may be readable by a group of another user's process: Kubernetes mounts secrets so. At most
    `max_bytes` are read. Raises PrivateFileError.
    """
    descriptor = -1
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # of a pipe, nobody waits
        _check(os.fstat(descriptor), path)
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(max_bytes)
    except OSError as error:
        raise PrivateFileError(f"the file can't be read: {error.strerror}") from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _check(found: os.stat_result, path: Path) -> None:
    user = os.geteuid()
    if not stat.S_ISREG(found.st_mode):
        raise PrivateFileError("not a file")
    if found.st_uid not in (user, 0):
        raise PrivateFileError(f"the file is of user {found.st_uid}: expected one of user {user} or of root")
    allowed = GROUP_READS if found.st_uid == 0 != user else 0
    if found.st_mode & SHARED & ~allowed:
        raise PrivateFileError(
            f"others than its owner may use the file (mode {stat.S_IMODE(found.st_mode):04o}): expected "
            f"0600, as `chmod 600 {path}` sets it"
        )
