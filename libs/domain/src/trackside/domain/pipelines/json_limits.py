"""What JSON of a definition may be, so that it has a canonical form (RFC 8785) and fits the stack. Pure."""

import math
from collections.abc import Iterator
from typing import Any

from trackside.contracts.envelope.refusals import Problem
from trackside.contracts.wire.ingress import MAX_DEPTH

MAX_INTEGER = 2**53 - 1
"""Beyond it, JSON's numbers are not exact."""


def json_problems(value: Any, path: str) -> Iterator[Problem]:
    """Yields what can't be JSON of a definition, with its path, walking without recursion."""
    waiting = [(value, path, 0)]
    while waiting:
        each, where, depth = waiting.pop()
        problem = _problem(each, depth)
        if problem is not None:
            yield Problem(code=problem[0], path=where, message=problem[1])
        elif isinstance(each, dict):
            waiting.extend((inner, f"{where}.{name}", depth + 1) for name, inner in reversed(each.items()))
        elif isinstance(each, list):
            inners = reversed(list(enumerate(each)))
            waiting.extend((inner, f"{where}[{at}]", depth + 1) for at, inner in inners)


def _problem(value: Any, depth: int) -> tuple[str, str] | None:
    """Returns code and message of what is wrong with a value, apart from what is in it."""
    if isinstance(value, dict | list) and depth >= MAX_DEPTH:
        return "too_deep", f"nested deeper than {MAX_DEPTH} levels"
    if isinstance(value, dict):
        wrong = next((name for name in value if not isinstance(name, str) or not _is_unicode(name)), None)
        return None if wrong is None else ("wrong_type", f"{wrong!r:.100} can't be a key: expected a text")
    if value is None or isinstance(value, list | bool):
        return None
    if isinstance(value, str):
        return None if _is_unicode(value) else ("bad_unicode", "holds a lone surrogate")
    if isinstance(value, int):
        beyond = f"beyond {MAX_INTEGER:,}, up to which numbers are exact in JSON: write it as a text"
        return None if abs(value) <= MAX_INTEGER else ("out_of_range", beyond)
    if isinstance(value, float):
        return None if math.isfinite(value) else ("not_finite", "not a finite number")
    return "wrong_type", f"expected JSON, got {type(value).__name__}"


def _is_unicode(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text)
