"""Values as short texts, for lines that people read."""

from collections.abc import Mapping
from typing import Any

_MOST_NAMED = 5


def number(value: float) -> str:
    """Formats a number with at most 5 significant digits."""
    return f"{value:.5g}"


def plain(value: Any) -> str:
    """Formats a value, a number as `number` does."""
    return number(value) if isinstance(value, float) else str(value)


def named_values(values: Mapping[str, Any]) -> str:
    """Formats the first few of some named values."""
    shown = [f"{name}={plain(value)}" for name, value in list(values.items())[:_MOST_NAMED]]
    more = len(values) - len(shown)
    return " ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
