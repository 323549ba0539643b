"""The kind scalar: one number."""

from trackside.summaries.kinds.bodies import number, pack_json, to_float, unpack_json
from trackside.summaries.kinds.kind import Body, Packed, SummaryKind


def pack(value: float) -> Packed:
    """Returns a number as it is stored: `{"value": 0.5}`, or "nan", "inf", "-inf"."""
    return pack_json({}, number(value))


def unpack(body: Body, data: bytes | None) -> float:
    """Returns the number. Raises BadValue."""
    return to_float(unpack_json(body, data), "a scalar")


def lines(body: Body, width: int) -> list[str]:
    """Returns the number as a line."""
    return [f"{to_float(body.get('value'), 'a scalar'):.6g}"[:width]]


SCALAR = SummaryKind("scalar", page_size=1_000, pack=pack, unpack=unpack, lines=lines)
