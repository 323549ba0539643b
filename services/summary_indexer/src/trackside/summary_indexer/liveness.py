"""Watches the running index: its lag and waits for `/ready`, and whether it makes progress."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from trackside.contracts.envelope.topics import Topic
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Log
from trackside.summary_indexer.stall_detector import StallDetector
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
