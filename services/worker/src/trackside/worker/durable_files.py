"""Files that a crash can't leave half written."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_atomically(path: Path, document: Mapping[str, Any]) -> None:
    """Writes a JSON file atomically; a power cut may lose it until it is synced. Raises OSError."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(document), "utf-8")
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
