"""Files that a crash can't leave half written."""

import os
from pathlib import Path


def write_atomically(path: Path, octets: bytes) -> None:
    """Writes a file atomically; a power cut may lose it until it is synced. Raises OSError."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_bytes(octets)
    unfinished.rename(path)


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
