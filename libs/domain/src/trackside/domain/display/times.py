"""Times of rows: dates if a calendar has them, else what they are, a number of seconds.

Most are the log's own. Those of values are what a program has written into an event file: any number.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_FIRST_US = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _US
_LAST_US = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH) // _US
"""A day from the ends of the calendar: what is between is a date in every time zone."""


class FarTime:
    """A time that is no date: it is compared and subtracted as one, and shown as its seconds since 1970."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def timestamp(self) -> float:
        """Returns the seconds since 1970."""
        return self._seconds

    def isoformat(self, *_form: str) -> str:
        """Returns the seconds as text: `500000000000 s`."""
        return str(self)

    strftime = isoformat

    def astimezone(self) -> "FarTime":
        """Returns the same: it has no time zone."""
        return self

    def __str__(self) -> str:
        return f"{self._seconds:.0f} s"

    def __format__(self, form: str) -> str:
        return str(self)

    def __sub__(self, other: Any) -> timedelta:
        return timedelta(seconds=self._seconds - other.timestamp())

    def __rsub__(self, other: Any) -> timedelta:
        return timedelta(seconds=other.timestamp() - self._seconds)

    def __lt__(self, other: Any) -> bool:
        return bool(self._seconds < other.timestamp())

    def __gt__(self, other: Any) -> bool:
        return bool(self._seconds > other.timestamp())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FarTime) and self._seconds == other._seconds

    def __hash__(self) -> int:
        return hash(self._seconds)


Time = datetime | FarTime


def time_of_us(us: int) -> Time:
    """Returns a time in µs since 1970."""
    return _EPOCH + us * _US if _FIRST_US <= us < _LAST_US else FarTime(us / 1_000_000)


def time_of_ms(ms: int) -> Time:
    """Returns a time in ms since 1970."""
    return time_of_us(ms * 1_000)
