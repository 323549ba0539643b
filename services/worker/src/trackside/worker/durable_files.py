"""Files that a crash can't leave half written."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_whole(path: Path, document: Mapping[str, Any]) -> None:
    """Writes a JSON file that no reader sees half written; a power cut may take it until it is synced."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(document), "utf-8")
    unfinished.rename(path)


def sync(path: Path) -> None:
    """Brings a file that was written whole to the disk, if it is still there. Raises OSError."""
    try:
        _sync(path)
        _sync(path.parent)
    except FileNotFoundError:  # what it says is in the log already
        return


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
