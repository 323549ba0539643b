"""Durations as people write them, read into seconds: 90, 90s, 30m, 2h, 1d."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from trackside.contracts.refusals import Problem

UNITS_S: Mapping[str, int] = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
EXPECTED = "expected seconds, or a number with s, m, h or d, such as 90s, 30m, 2h or 1d"
MARK = "_s"
"""How the names of fields end that hold seconds."""
_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)\s*")


def seconds(text: str) -> float | None:
    """Reads a duration in seconds; None if the text is none."""
    match = _TEXT.fullmatch(text)
    found = math.inf if match is None else float(match[1]) * UNITS_S[match[2]]
    return found if math.isfinite(found) else None


def put_seconds(path: str, value: dict[str, Any], names: Iterable[str]) -> Problem | None:
    """Puts seconds in the place of texts, where fields of these names hold seconds; names a bad one."""
    for name in names:
        text = value.get(name)
        if not name.endswith(MARK) or not isinstance(text, str):
            continue
        found = seconds(text)
        if found is None:
            message = f"{text!r} is no duration; {EXPECTED}"
            return Problem(code="unknown_value", path=f"{path}.{name}", message=message)
        value[name] = found
    return None
