"""How far behind the log the index is, and whether it still moves. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


class StuckError(Exception):
    """The log has more and nothing was read for too long: the process must be started again."""


@dataclass(slots=True)
class Progress:
    """Watches positions against the ends of the log; times are monotonic seconds.

    `is_level`: when it was last looked at, everything in the log was written.
    """

    stuck_s: float
    is_level: bool = False
    _positions: dict[int, int] = field(default_factory=dict)
    _moved_s: float = math.inf
    _level_s: float | None = None

    def lag_s(self, ends: Mapping[int, int], positions: Mapping[int, int], now_s: float) -> float:
        """Gives for how many seconds the log has had something that isn't written; 0 if it has nothing."""
        watched = positions or dict.fromkeys(ends, 0)
        self.is_level = all(position >= ends.get(partition, 0) for partition, position in watched.items())
        first = self._level_s is None
        if self._level_s is None or self.is_level:
            self._level_s = now_s
        if self.is_level or first or dict(positions) != self._positions:
            self._positions, self._moved_s = dict(positions), now_s
        return now_s - self._level_s

    def excuse(self, now_s: float) -> None:
        """Says that no progress can be expected now: Postgres or the log is away."""
        self._moved_s = now_s

    def check(self, now_s: float) -> None:
        """Raises StuckError if there was something to read and nothing was read for `stuck_s`.

        To join its group a consumer gets three times as long.
        """
        limit_s = self.stuck_s if self._positions else 3 * self.stuck_s
        if now_s - self._moved_s > limit_s:
            raise StuckError(
                f"the log of metrics moves, but for {now_s - self._moved_s:.0f} s nothing was read at "
                f"{self._positions}; starting the process again rebuilds its consumer"
            )
