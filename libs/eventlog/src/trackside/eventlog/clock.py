"""Where services read a clock: nowhere else."""

import time
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now_ms(self) -> int:
        """Returns the wall clock in ms since 1970; it may jump."""
        ...

    def monotonic_s(self) -> float:
        """Returns seconds of a clock that never goes back."""
        ...


CLOCK: ContextVar[Clock | None] = ContextVar("trackside_clock", default=None)
"""The clock that is read here: None is the system's; each process of a simulation has its own."""


def now_ms() -> int:
    """Returns the wall clock in ms since 1970."""
    clock = CLOCK.get()
    if clock is not None:
        return clock.now_ms()
    return time.time_ns() // 1_000_000  # noqa: TID251 - only here


def monotonic_s() -> float:
    """Returns seconds of a clock that never goes back, for waiting and measuring."""
    clock = CLOCK.get()
    return time.monotonic() if clock is None else clock.monotonic_s()


class ClockReading(NamedTuple):
    """The times of both clocks: wall clock in ms since 1970, monotonic clock in s."""

    now_ms: float
    monotonic_s: float


def read_forward(earlier: ClockReading) -> ClockReading:
    """Returns the time now; if the wall clock was set back since `earlier`, as if it had not been."""
    seconds, wall_ms = monotonic_s(), now_ms()
    least_ms = earlier.now_ms + (seconds - earlier.monotonic_s) * 1000
    return ClockReading(max(wall_ms, least_ms), seconds)


def not_before(reading: ClockReading, ms: int) -> ClockReading:
    """Returns the reading, with `ms` as its wall clock if it is less: the clock of the log is ahead."""
    return reading if reading.now_ms >= ms else ClockReading(ms, monotonic_s())


def rfc3339(ms: int) -> str:
    """Formats ms since 1970 as RFC 3339, as CloudEvents requires."""
    seconds, rest_ms = divmod(ms, 1000)
    return f"{_to_the_second(seconds)}.{rest_ms:03}Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
