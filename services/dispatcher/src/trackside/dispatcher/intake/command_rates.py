"""Counts the commands of publishers by the times of their records, in windows of ten seconds.

A window begins at a multiple of its length, so which one a command is in follows from its record alone: not
from when, or after which other commands, a dispatcher reads it. Partitions are read in any order, and hours
of commands at once after an outage.
"""

from dataclasses import dataclass
from typing import NamedTuple

WINDOW_MS = 10_000
MAX_WINDOWS = 20_000
"""How many windows are kept, all publishers together: those that were begun last."""


class RateKey(NamedTuple):
    """What has a rate of its own: the commands of a publisher that open streams, and its other ones."""

    publisher: str
    opens: bool


@dataclass(slots=True)
class _Window:
    admitted: int = 0
    postponed: int = 0


def window_budget(per_s: float) -> int:
    """Returns how many commands of one window are within a limit a second, at least one."""
    return max(1, int(per_s * WINDOW_MS / 1_000))


class CommandRates:
    """The windows of all publishers; one that is no longer kept begins again, which admits more."""

    def __init__(self, max_windows: int = MAX_WINDOWS) -> None:
        self._max_windows = max_windows
        self._windows: dict[tuple[RateKey, int], _Window] = {}

    def __len__(self) -> int:
        return len(self._windows)

    def take(self, key: RateKey, at_ms: int, per_s: float) -> int | None:
        """Counts a command; returns from when on it may be published again if it is beyond the limit.

        Each window is given to as many commands as it permits: published again at their times, all are
        admitted if their publisher publishes nothing else then.
        """
        number, budget = at_ms // WINDOW_MS, window_budget(per_s)
        window = self._window(key, number)
        if window.admitted < budget:
            window.admitted += 1
            return None
        ahead = 1 + window.postponed // budget
        window.postponed += 1
        return (number + ahead) * WINDOW_MS

    def correct(self, key: RateKey, at_ms: int, by: int) -> None:
        """Adds to the admitted commands of a window: what the log says differs from what was counted."""
        self._window(key, at_ms // WINDOW_MS).admitted += by

    def _window(self, key: RateKey, number: int) -> _Window:
        window = self._windows.get((key, number))
        if window is None:
            if len(self._windows) >= self._max_windows:
                del self._windows[next(iter(self._windows))]
            window = self._windows[key, number] = _Window()
        return window
