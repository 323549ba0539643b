"""The one place where services read a clock."""

import time
from datetime import UTC, datetime


def now_ms() -> int:
    """Gives the wall clock in ms since 1970."""
    return time.time_ns() // 1_000_000  # noqa: TID251 - the one place


def monotonic_s() -> float:
    """Gives seconds of a clock that never goes back, for waiting and measuring."""
    return time.monotonic()


def rfc3339(ms: int) -> str:
    """Writes ms since 1970 as CloudEvents wants its time."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
