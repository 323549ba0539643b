"""What a kind of summary value is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

Body = dict[str, Any]
"""A JSON object without NaN, NUL and lone surrogates: Postgres can store it as jsonb."""


class BadValue(ValueError):
    """A stored value that is damaged, or one that can't be stored: what it is, and what was expected."""

    def __init__(self, what: str, expected: str) -> None:
        super().__init__(f"{what}; expected {expected}")
        self.what = what
        self.expected = expected


class ReadRefused(ValueError):
    """A read whose argument doesn't fit the value, or is over a limit: what it is, and what was expected."""

    def __init__(self, what: str, expected: str) -> None:
        super().__init__(f"{what}; expected {expected}")
        self.what = what
        self.expected = expected


class Packed(NamedTuple):
    """A value as it is stored.

    `body` describes the value. It also has the key `value` if it holds all of it: then `data` is None and the
    media type "application/json". Else `data` are the bytes of an artifact of type `media_type`.
    """

    body: Body
    data: bytes | None
    media_type: str


def thin(steps: Sequence[int], limit: int) -> list[int]:
    """Returns the indexes of at most `limit` steps, evenly spaced, in order.

    The first and the last are always among them; if `limit` is 1, only the last. Raises ValueError for a
    limit below 1.
    """
    if limit < 1:
        raise ValueError(f"the limit of a thinned series is {limit}; expected 1 or more")
    last = len(steps) - 1
    if last < limit:
        return list(range(len(steps)))
    if limit == 1:
        return [last]
    return [(2 * at * last + limit - 1) // (2 * (limit - 1)) for at in range(limit)]


@dataclass(frozen=True, slots=True)
class SummaryKind:
    """A kind of values; its functions are pure.

    `name` is the kind's in records, rows and commands. `page_size` is how many steps a read returns unless it
    asks for another number.

    `pack(value)` returns a value as it is stored, a body of at most `bodies.INLINE_BYTES` as JSON.
    `unpack(body, data)` returns the value again; `data` is None where the body has the value. Both raise
    BadValue and no other error: `unpack` gets bytes that may be damaged.
    `lines(body, width)` shows a body in a terminal of that many columns, without control characters. Raises
    BadValue.
    `thin(steps, limit)` chooses the steps that are shown: see `kind.thin`.
    """

    name: str
    page_size: int
    pack: Callable[[Any], Packed]
    unpack: Callable[[Body, bytes | None], Any]
    lines: Callable[[Body, int], list[str]]
    thin: Callable[[Sequence[int], int], list[int]] = thin
