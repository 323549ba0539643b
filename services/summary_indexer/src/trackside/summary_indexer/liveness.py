"""Watches the running index: its lag and waits for `/ready`, and whether it makes progress."""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from trackside.contracts.envelope.topics import Topic
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Log
from trackside.telemetry.health import Health

CHECK_INTERVAL_S = 0.5
CAUGHT_UP_INTERVAL_S = 2.0
"""The same while the index has all that the log had the last time."""

IndexStatus = Literal["INIT", "LOADING", "DONE", "INVALID"]
"""INIT: no position is known yet; LOADING: the log has more; DONE; INVALID: the log has nothing to index."""


class IndexProgress(Protocol):
    """How far an index is in the log."""

    @property
    def positions(self) -> dict[int, int]:
        """The next offset to write of each partition; empty until partitions are assigned."""
        ...

    @property
    def is_working(self) -> bool:
        """Whether it takes a record in, or writes: then it need not read."""
        ...


class WaitReasons:
    """What each part of the service waits for; it is ready only when no part waits."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._reasons: dict[str, str] = {}

    def reporter(self, part: str) -> Callable[[str | None], None]:
        """Returns the function by which a part reports what it waits for, or None when it continues."""

        def report(reason: str | None) -> None:
            if reason is None:
                self._reasons.pop(part, None)
            else:
                self._reasons[part] = reason
            self._health.waiting(next(iter(self._reasons.values()), None))

        return report

    def __bool__(self) -> bool:
        return bool(self._reasons)


def index_status(positions: Mapping[int, int], *, is_caught_up: bool) -> IndexStatus:
    """Returns the state of the index, as `/ready` has it."""
    if not positions:
        return "INIT"
    if not is_caught_up:
        return "LOADING"
    return "DONE" if any(positions.values()) else "INVALID"


async def watch_liveness(
    log: Log, topic: Topic, index: IndexProgress, health: Health, wait_reasons: WaitReasons, stuck_s: float
) -> None:
    """Updates lag and readiness until cancelled. Raises StalledError."""
    detector, report = StallDetector(stuck_s), wait_reasons.reporter("log")
    while True:
        try:
            ends = await log.ends(topic.name)
            report(None)
        except TransientError:
            report("waiting for the log")
            ends = None
        now_s = monotonic_s()
        if ends is not None:
            positions = index.positions
            health.set_lag(topic.name, detector.lag_s(ends, positions, now_s))
            health.facts["index"] = index_status(positions, is_caught_up=detector.is_caught_up)
            health.ready = health.ready or (bool(positions) and detector.is_caught_up)
            health.behind = sum(max(0, end - positions.get(at, 0)) for at, end in ends.items())
        detector.check(now_s, waits=bool(wait_reasons) or index.is_working)
        await asyncio.sleep(CAUGHT_UP_INTERVAL_S if detector.is_caught_up else CHECK_INTERVAL_S)


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
