"""Durations as users write them, parsed into seconds: 90, 90s, 30m, 2h, 1d."""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from trackside.contracts.envelope.refusals import Problem

UNITS_S: Mapping[str, int] = {"": 1, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
EXPECTED = "expected seconds, or a number with s, m, h or d, such as 90s, 30m, 2h or 1d"
SUFFIX = "_s"
"""The suffix of the names of fields in seconds."""
_TEXT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)\s*")


def seconds(text: str) -> float | None:
    """Parses a duration and returns seconds; None if the text is not a duration."""
    match = _TEXT.fullmatch(text)
    found = math.inf if match is None else float(match[1]) * UNITS_S[match[2]]
    return found if math.isfinite(found) else None


def put_seconds(path: str, value: dict[str, Any], names: Iterable[str]) -> list[Problem]:
    """Replaces texts by seconds in the fields of these names that end in `_s`; returns the invalid ones."""
    problems = []
    for name in names:
        text = value.get(name)
        if not name.endswith(SUFFIX) or not isinstance(text, str):
            continue
        found = seconds(text)
        if found is None:
            message = f"{text!r} is no duration; {EXPECTED}"
            problems.append(Problem(code="unknown_value", path=f"{path}.{name}", message=message))
        else:
            value[name] = found
    return problems
