"""Files that a crash can't leave half written."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_synced(path: Path, document: Mapping[str, Any]) -> None:
    """Writes a JSON file so that, after any crash, it is there whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("w", encoding="utf-8") as file:
        json.dump(document, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
