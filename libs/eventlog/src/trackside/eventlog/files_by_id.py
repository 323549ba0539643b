"""Files of settings that are one JSON object, such as a list of keys by their ids."""

import json
from pathlib import Path
from typing import Any


def read_by_id(path: Path, what: str) -> dict[str, Any]:
    """Reads a file with an object of `what` by id; raises ValueError, which names the file and the rule."""
    try:
        body = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from error
    if not isinstance(body, dict):
        raise ValueError(f"{path}: expected an object of {what} by id, got {type(body).__name__}")
    return body
