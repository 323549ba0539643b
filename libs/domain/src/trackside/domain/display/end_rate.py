"""How fast the parts of a stream end, and how long the rest will take. Pure."""

from collections import deque
from collections.abc import Iterable

from trackside.domain.display.text import duration

WINDOW = 30
"""The newest ends that the rate is measured over: old ones say little about what runs now."""


class EndRate:
    """The rate at which parts have ended lately; all times are ms since 1970."""

    def __init__(self, started_ms: int, ends_ms: Iterable[int] = ()) -> None:
        """`started_ms`: when the stream began; `ends_ms`: when parts ended, in order."""
        self._moments = deque([started_ms], maxlen=WINDOW + 1)
        self._moments.extend(ends_ms)

    def add(self, ended_ms: int) -> None:
        """Adds the end of a part."""
        self._moments.append(ended_ms)

    def per_minute(self, now_ms: int) -> float | None:
        """Returns how many parts end in a minute, None before the first end; it falls while none ends."""
        ends = len(self._moments) - 1
        span_ms = max(now_ms, self._moments[-1]) - self._moments[0]
        return None if ends == 0 or span_ms <= 0 else 60_000 * ends / span_ms

    def text(self, left: int | None, now_ms: int) -> str:
        """Returns the rate, and the time for what is `left`: `12/min, 3 min 20 s left`; empty if unknown."""
        rate = self.per_minute(now_ms)
        if rate is None or left == 0:
            return ""
        shown = _rate(rate)
        return shown if left is None else f"{shown}, {duration(60 * left / rate)} left"


def _rate(per_minute: float) -> str:
    if per_minute >= 100:
        return f"{per_minute / 60:.2g}/s" if per_minute < 6_000 else f"{per_minute / 60:.0f}/s"
    return f"{per_minute:.2g}/min" if per_minute >= 1 else f"{per_minute * 60:.2g}/h"
