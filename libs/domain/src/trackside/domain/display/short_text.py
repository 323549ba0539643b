"""Values as short texts, for lines that people read."""

from collections.abc import Mapping
from typing import Any

from trackside.domain.display.text import number

_MOST_NAMED = 5


def plain(value: Any) -> str:
    """Formats a value, a number as `number` does."""
    return number(value) if isinstance(value, float) else str(value)


def named_values(values: Mapping[str, Any]) -> str:
    """Formats the first few of some named values."""
    shown = [f"{name}={plain(value)}" for name, value in list(values.items())[:_MOST_NAMED]]
    more = len(values) - len(shown)
    return " ".join([*shown, *([f"and {more} more"] if more > 0 else [])])
