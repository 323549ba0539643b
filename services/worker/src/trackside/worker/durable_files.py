"""Files that a crash can't leave half written."""

import os
from pathlib import Path


def write_atomically(path: Path, octets: bytes) -> None:
    """Writes a file atomically; a power cut may lose it until it is synced. Raises OSError."""
    unfinished = path.with_suffix(".unfinished")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        write_all(descriptor, octets)
    finally:
        os.close(descriptor)
    unfinished.rename(path)


def write_all(descriptor: int, octets: bytes) -> None:
    """Writes bytes to a descriptor, in several parts if it takes no more at once. Raises OSError."""
    while octets:
        octets = octets[os.write(descriptor, octets) :]


def sync(path: Path) -> None:
    """Syncs a file and its directory to the disk; a missing file is ignored. Raises OSError."""
    try:
        _sync(path)
        _sync(path.parent)
    except FileNotFoundError:  # it was removed: its content is in the log
        return


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
