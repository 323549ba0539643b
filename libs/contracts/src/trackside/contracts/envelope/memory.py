"""Amounts of memory: bytes, or a number with a unit, as people write them."""

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

MEMORY_RULE = "bytes, or a number with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (of 1024)"
MAX_BYTES = 2**60
_AMOUNT = re.compile(r"(\d{1,20}(?:\.\d{1,20})?)\s*(?:([kKMGT]?)(i?)B)?")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def bytes_of(text: str) -> int:
    """Reads an amount of memory: "1.5GiB", "789MB", "100"; a fraction of a byte is rounded up.

    Bits ("Gb") and anything else raise ValueError, which says what is expected.
    """
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or (found[3] and not found[2]):
        hint = "; a small b would be bits" if text.rstrip().endswith("b") else ""
        raise ValueError(f"{text[:100]!r} is not an amount of memory: expected {MEMORY_RULE}{hint}")
    amount = Decimal(found[1]) * (1024 if found[3] else 1000) ** _POWERS[(found[2] or "").upper()]
    return int(amount.to_integral_value(rounding="ROUND_CEILING"))


def shown(size_bytes: int) -> str:
    """Writes an amount for a person, in powers of 1024: "1.5 GiB"."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def _read(given: object) -> object:
    if not isinstance(given, str):
        return given
    try:
        return bytes_of(given)
    except ValueError as error:
        raise PydanticCustomError("bad_memory", "{reason}", {"reason": str(error)}) from error


Memory = Annotated[
    int,
    Field(gt=0, le=MAX_BYTES),
    BeforeValidator(_read),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "exclusiveMinimum": 0, "maximum": MAX_BYTES},
                {"type": "string", "pattern": rf"^\s*{_AMOUNT.pattern}\s*$"},
            ],
            "description": MEMORY_RULE,
        },
        mode="validation",
    ),
]
"""Bytes, more than 0; given as a whole number or as text, always a whole number in events."""
