"""W3C `traceparent` strings, as message headers carry them: read, and derived from others."""

import hashlib
import re
from typing import Final, NamedTuple

_WELL_FORMED: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII
)
SAMPLED: Final = "01"


class TraceContext(NamedTuple):
    """The ids of a span and the flags of its trace, as hex digits."""

    trace: str
    span: str
    flags: str

    @property
    def is_sampled(self) -> bool:
        """Whether the spans of the trace are exported."""
        return int(self.flags, 16) & 1 == 1

    def __str__(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags}"


def parse(traceparent: str | None) -> TraceContext | None:
    """Reads a `traceparent`; None if malformed, as all-zero ids are, or version 00 with more fields."""
    if traceparent is None or not (found := _WELL_FORMED.fullmatch(traceparent)):
        return None
    trace, span, flags, more = found.groups()
    if (more and traceparent.startswith("00")) or not trace.strip("0") or not span.strip("0"):
        return None
    return TraceContext(trace, span, flags)


def trace_id(traceparent: str | None) -> str | None:
    """Returns the 32 hex digits that all spans of one trace share, or none if `traceparent` is malformed."""
    parts = parse(traceparent)
    return parts.trace if parts else None


def derive_trace(traceparent: str, *names: str) -> str:
    """Returns the `traceparent` of the first span of a further trace, named relative to a given one.

    Everyone derives the same one, so it needs no place in the state. It has the flags of the given trace, and
    is therefore sampled if that one is; sampled if that one is malformed.
    """
    above = parse(traceparent)
    key = "\n".join(("" if above is None else above.trace, *names)).encode()
    digits = hashlib.sha256(key).hexdigest()
    return str(TraceContext(digits[:32], digits[32:48], SAMPLED if above is None else above.flags))


def derive_span(traceparent: str, *names: str) -> str:
    """Returns the `traceparent` of a span of the same trace, named relative to the given span."""
    above = parse(traceparent)
    if above is None:
        return derive_trace(traceparent, *names)
    digits = hashlib.sha256("\n".join((above.trace, above.span, *names)).encode()).hexdigest()
    return str(above._replace(span=digits[:16]))
