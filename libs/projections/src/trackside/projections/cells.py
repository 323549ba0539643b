"""Turns values of the log into values that Postgres can hold, whatever the log holds."""

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

WHOLE_LIMIT = 2**63 - 1
"""The largest whole number of a bigint."""


def moment(ms: int) -> int | None:
    """Gives a time in ms since 1970, or nothing for the 0 that means not yet."""
    return ms or None


def measured(value: int) -> int | None:
    """Gives a measured duration in ms, or nothing for the -1 that means not measured."""
    return None if value < 0 else whole(value)


def whole(value: int) -> int:
    """Gives a whole number within the range of a bigint."""
    return max(-WHOLE_LIMIT, min(value, WHOLE_LIMIT))


def wholes(values: Sequence[int]) -> Sequence[int]:
    """Gives whole numbers within the range of a bigint; the same list if they are."""
    if not values or (max(values) <= WHOLE_LIMIT and min(values) >= -WHOLE_LIMIT):
        return values
    return [whole(value) for value in values]


def plain(text: str) -> str:
    """Gives a text without the NUL characters that Postgres can't hold."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def json_text(value: Any) -> str | None:
    """Writes a value or a model as JSON for a jsonb column; None stays SQL's null.

    What jsonb can't hold is replaced: NUL in a text by U+FFFD, a number that isn't finite by null.
    """
    if value is None:
        return None
    text = to_json(value, inf_nan_mode="null").decode()
    if "\\u0000" not in text:
        return text
    return to_json(_holdable(json.loads(text))).decode()


def _holdable(value: Any) -> Any:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {plain(name): _holdable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_holdable(inner) for inner in value]
    return value
