"""How far the index lags the log, and whether it makes progress. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_PAUSE_S = 1.0
"""How much of the time between two checks counts at most, s: a busy host kept the consumer waiting, too."""


class StalledError(Exception):
    """Nothing was read for too long although the log has more: the process must be restarted."""


@dataclass(slots=True)
class StallDetector:
    """Compares positions with the ends of the log; times are monotonic seconds.

    `is_caught_up`: at the last comparison everything in the log was written.
    """

    stuck_s: float
    is_caught_up: bool = False
    _positions: dict[int, int] = field(default_factory=dict)
    _has_moved: bool = False
    _idle_s: float = 0.0
    _checked_s: float = math.inf
    _caught_up_s: float | None = None

    def lag_s(self, ends: Mapping[int, int], positions: Mapping[int, int], now_s: float) -> float:
        """Returns for how many seconds the log has had unwritten records; 0 if it has none."""
        reached = positions or dict.fromkeys(ends, 0)
        self.is_caught_up = all(at >= ends.get(partition, 0) for partition, at in reached.items())
        first = self._caught_up_s is None
        if self._caught_up_s is None or self.is_caught_up:
            self._caught_up_s = now_s
        self._has_moved = self.is_caught_up or first or positions != self._positions
        self._positions = dict(positions)
        return now_s - self._caught_up_s

    def check(self, now_s: float, *, waits: bool = False) -> None:
        """Raises StalledError if nothing was read for `stuck_s` although the log has more.

        Until the consumer has joined its group the limit is three times as long. It begins anew when the
        service `waits` for something else, such as Postgres.
        """
        pause_s = min(max(0.0, now_s - self._checked_s), MOST_PAUSE_S)
        self._checked_s = now_s
        self._idle_s = 0.0 if waits or self._has_moved else self._idle_s + pause_s
        limit_s = self.stuck_s if self._positions else 3 * self.stuck_s
        if self._idle_s > limit_s:
            raise StalledError(
                f"the log of metrics grows, but for {self._idle_s:.0f} s nothing was read at "
                f"{self._positions}; restarting the process rebuilds its consumer"
            )
