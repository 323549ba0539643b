"""A point in time of a stream: an offset, a time, or a duration ago."""

import re
from dataclasses import dataclass
from datetime import datetime

from trackside.contracts.envelope.message import Record
from trackside.eventlog.clock import rfc3339
from trackside.replay.history.errors import BadRangeError

EXPECTED = (
    "an offset such as 1204, a time such as 2026-01-31T12:00:00Z, or a duration ago such as 10m or 1h30m"
)
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|s|m|h|d)")
_OFFSET = re.compile(r"\d{1,18}")


@dataclass(frozen=True, slots=True)
class PointInTime:
    """Up to and including an offset, or a time in ms since 1970; with neither it is now."""

    offset: int | None = None
    time_ms: int | None = None

    def includes(self, record: Record) -> bool:
        """Returns whether a record had been written by then."""
        if self.offset is not None:
            return record.offset <= self.offset
        return self.time_ms is None or record.append_time_ms <= self.time_ms

    def __str__(self) -> str:
        """Returns it as it is printed."""
        if self.offset is not None:
            return f"offset {self.offset}"
        return "now" if self.time_ms is None else rfc3339(self.time_ms)


NOW = PointInTime()


def parse_point_in_time(text: str, now_ms: int) -> PointInTime:
    """Parses a point in time as it is typed; raises BadRangeError if it is invalid, or in the future."""
    written = text.strip()
    if written in ("", "now"):
        return NOW
    if _OFFSET.fullmatch(written):
        return PointInTime(offset=int(written))
    time_ms = _ago(written, now_ms)
    if time_ms is None:
        time_ms = _rfc3339(written)
    if time_ms > now_ms:
        raise BadRangeError(f"{text!r} has not come yet: it is {rfc3339(now_ms)}")
    return PointInTime(time_ms=time_ms)


def _ago(written: str, now_ms: int) -> int | None:
    """Parses `1h30m`, also with `ago` after it; returns None for what is no duration."""
    parts = written.removesuffix("ago").strip()
    if not parts or _PART.sub("", parts).strip():
        return None
    return now_ms - sum(int(float(number) * _UNITS_MS[unit]) for number, unit in _PART.findall(parts))


def _rfc3339(written: str) -> int:
    try:
        parsed = datetime.fromisoformat(written)
    except ValueError:
        raise BadRangeError(f"{written!r} is not a point in time: expected {EXPECTED}") from None
    if parsed.tzinfo is None:
        raise BadRangeError(f"{written!r} has no time zone: write {written}Z for UTC")
    return round(parsed.timestamp() * 1000)
