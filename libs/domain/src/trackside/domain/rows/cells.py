"""Converts values of the log into values that Postgres can store."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

BIGINT_MAX = 2**63 - 1
"""The largest value of a bigint."""


def time_or_null(ms: int) -> int | None:
    """Returns a time in ms since 1970, or None for 0, which means not yet."""
    return ms or None


def duration_or_null(value: int) -> int | None:
    """Returns a duration in ms, or None for -1, which means not measured."""
    return None if value < 0 else bigint(value)


def bigint(value: int) -> int:
    """Returns a whole number clamped to the range of a bigint."""
    return max(-BIGINT_MAX, min(value, BIGINT_MAX))


def bigints(values: Sequence[int]) -> Sequence[int]:
    """Returns whole numbers clamped to the range of a bigint; the same list if none had to be."""
    if not values or (max(values) <= BIGINT_MAX and min(values) >= -BIGINT_MAX):
        return values
    return [bigint(value) for value in values]


def without_nul(text: str) -> str:
    """Returns a text with NUL, which Postgres can't store, replaced by U+FFFD."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def json_text(value: Any) -> str | None:
    """Writes a value or a model as JSON for a jsonb column; None stays SQL's null.

    Values that jsonb can't store are replaced: NUL in a text by U+FFFD, a number that isn't finite by null.
    """
    if value is None:
        return None
    text = to_json(value, inf_nan_mode="null").decode()
    if "\\u0000" not in text:
        return text
    return to_json(_storable(json.loads(text))).decode()


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return without_nul(value)
    if isinstance(value, dict):
        return {without_nul(name): _storable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    return value
