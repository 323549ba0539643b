"""Bodies of values: in the record where they are small, else as bytes of an artifact."""

import json
import math
import re
from collections.abc import Sequence
from typing import Any

from trackside.summaries.kinds.kind import BadValue, Body, Packed

INLINE_BYTES = 32 * 1024
"""The longest body, as JSON. A value whose body would be longer is stored as an artifact."""
MAX_JSON_BYTES = 128 * 1024 * 1024
"""The longest JSON of one value in an artifact: it needs about ten times as much memory when it is read."""
MAX_DATA_BYTES = 512 * 1024 * 1024
"""The largest image or array of one value. A record of an event file has at most 500 MB."""
JSON_TYPE = "application/json"

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_NOT_IN_POSTGRES = re.compile("\\\\u0000|[\ud800-\udfff]")
"""What jsonb refuses, in a JSON text: NUL and lone surrogates."""


def pack_json(description: Body, value: object) -> Packed:
    """Returns a value as it is stored: in the body next to its description, or as JSON in an artifact.

    Raises BadValue for one that is too long.
    """
    body = {**description, "value": value}
    if is_inline(body):
        return Packed(body, None, JSON_TYPE)
    data = _dumps(value, ascii_only=True).encode()
    if len(data) > MAX_JSON_BYTES:
        raise BadValue(f"a value of {len(data)} bytes as JSON", f"at most {MAX_JSON_BYTES} bytes")
    return Packed(description, data, JSON_TYPE)


def is_inline(body: Body) -> bool:
    """Returns whether a body can be in the record: short enough, and of characters that Postgres stores."""
    text = _dumps(body, ascii_only=False)
    return (
        len(text) <= INLINE_BYTES
        and _NOT_IN_POSTGRES.search(text) is None
        and len(text.encode()) <= INLINE_BYTES
    )


def unpack_json(body: Body, data: bytes | None) -> Any:
    """Returns the JSON value of a body, or of its data. Raises BadValue."""
    if data is None:
        if "value" not in body:
            raise BadValue("a body that only describes its value", "the value, or its data")
        return body["value"]
    if len(data) > MAX_JSON_BYTES:
        raise BadValue(f"{len(data)} bytes of JSON", f"at most {MAX_JSON_BYTES} bytes")
    try:
        return json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as damaged:
        raise BadValue(f"data that can't be read: {damaged}", "a JSON value") from None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _dumps(value: object, *, ascii_only: bool) -> str:
    try:
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as bad:
        raise BadValue(f"a value that can't be written: {bad}", "a JSON value") from None


def number(value: float) -> float | str:
    """Returns a number as JSON has it: "nan", "inf" or "-inf" if it is not finite.

    All others are kept to the bit, but that Postgres has no -0.0: it becomes 0.0.
    """
    if math.isfinite(value):
        return float(value)
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def to_float(value: object, what: str) -> float:
    """Returns the number of a JSON value. Raises BadValue, which names `what`."""
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            pass
    raise BadValue(f"{what} is {cut(value)}", 'a number, "nan", "inf" or "-inf"')


def numbers(values: Sequence[float]) -> list[float | str]:
    """Returns numbers as JSON has them."""
    return [number(value) for value in values]


def to_floats(value: object, what: str) -> list[float]:
    """Returns the numbers of a JSON list. Raises BadValue."""
    return [to_float(each, what) for each in to_list(value, what)]


def to_list(value: object, what: str) -> list[Any]:
    """Returns a JSON list. Raises BadValue."""
    if not isinstance(value, list):
        raise BadValue(f"{what} is {cut(value)}", "a list")
    return value


def to_object(value: object, what: str) -> dict[str, Any]:
    """Returns a JSON object. Raises BadValue."""
    if not isinstance(value, dict):
        raise BadValue(f"{what} is {cut(value)}", "an object")
    return value


def to_text(value: object, what: str) -> str:
    """Returns a JSON string. Raises BadValue."""
    if not isinstance(value, str):
        raise BadValue(f"{what} is {cut(value)}", "a string")
    return value


def to_texts(value: object, what: str) -> list[str]:
    """Returns a JSON list of strings. Raises BadValue."""
    return [to_text(each, what) for each in to_list(value, what)]


LEAST_INT64 = -(1 << 63)
"""What a size or a count of a damaged file may be: it is stored as the file has it."""


def to_integer(value: object, what: str, least: int = 0) -> int:
    """Returns a JSON integer. Raises BadValue for another value, or for one below `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise BadValue(f"{what} is {cut(value)}", f"an integer, {least} or more")
    return value


def cut(value: object, characters: int = 40) -> str:
    """Returns the beginning of a value as text, for an error."""
    if isinstance(value, list | dict):
        return f"a {'list' if isinstance(value, list) else 'JSON object'} of {len(value)}"
    text = repr(value[: characters + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= characters else f"{text[:characters]}..."
