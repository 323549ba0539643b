"""Bulk values of charts as bytes: a header in JSON, then each column as little-endian numbers.

Format: the length of the header (u32), the header in UTF-8, zeros up to a multiple of 8; then each column,
followed by zeros up to a multiple of 8. The header has `columns`, each with `name`, `type` (f8, f4 or i4),
`length` and, where the numbers are indexes of texts, `labels`; and `meta`. A missing number is NaN, a missing
text -1.
"""

import json
from typing import Any

import numpy as np

from trackside.console.web.page import ChartValues

MEDIA_TYPE = "application/vnd.trackside.columns"
_TYPES = {"f8": "<f8", "f4": "<f4", "i4": "<i4"}


def packed(chart: ChartValues) -> bytes:
    """Returns columns as bytes; numbers that are neither f4 nor i4 become f8."""
    listed: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for name, values in chart.arrays.items():
        kind = {"f": "f4", "i": "i4"}.get(values.dtype.char, "f8")
        column: dict[str, Any] = {"name": name, "type": kind, "length": len(values)}
        if name in chart.labels:
            column["labels"] = list(chart.labels[name])
        listed.append(column)
        parts.append(_padded(np.ascontiguousarray(values, dtype=_TYPES[kind]).tobytes()))
    head = json.dumps({"columns": listed, "meta": chart.meta}, default=str, allow_nan=False).encode()
    return _padded(len(head).to_bytes(4, "little") + head) + b"".join(parts)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 8)
