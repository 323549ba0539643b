"""The one place where services read a clock."""

import time
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple, Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now_ms(self) -> int:
        """Gives the wall clock in ms since 1970; it may jump."""
        ...

    def monotonic_s(self) -> float:
        """Gives seconds of a clock that never goes back."""
        ...


CLOCK: ContextVar[Clock | None] = ContextVar("trackside_clock", default=None)
"""The clock that is read here: none for the system's; each process of a simulation has its own."""


def now_ms() -> int:
    """Gives the wall clock in ms since 1970."""
    clock = CLOCK.get()
    if clock is not None:
        return clock.now_ms()
    return time.time_ns() // 1_000_000  # noqa: TID251 - the one place


def monotonic_s() -> float:
    """Gives seconds of a clock that never goes back, for waiting and measuring."""
    clock = CLOCK.get()
    return time.monotonic() if clock is None else clock.monotonic_s()


class Moment(NamedTuple):
    """What both clocks say."""

    now_ms: float
    monotonic_s: float


def forward(earlier: Moment) -> Moment:
    """Gives this moment; if the wall clock was put back since, as if it had not been."""
    seconds, told_ms = monotonic_s(), now_ms()
    least_ms = earlier.now_ms + (seconds - earlier.monotonic_s) * 1000
    return Moment(max(told_ms, least_ms), seconds)


def not_before(moment: Moment, ms: int) -> Moment:
    """Gives a moment as if its wall clock had said `ms`, if it says less: the log's clock is ahead of it."""
    return moment if moment.now_ms >= ms else Moment(ms, monotonic_s())


def rfc3339(ms: int) -> str:
    """Writes ms since 1970 as CloudEvents wants its time."""
    seconds, rest_ms = divmod(ms, 1000)
    return f"{_to_the_second(seconds)}.{rest_ms:03}Z"


@lru_cache(maxsize=64)
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()
