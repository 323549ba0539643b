"""Looks after the index while it runs: lag for `/ready`, what it waits for, and whether it still moves."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from trackside.contracts.topics import Topic
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Log
from trackside.summary_indexer.progress import Progress
from trackside.telemetry.health import Health

EVERY_S = 0.5


class Positions(Protocol):
    """What has reached which position."""

    @property
    def positions(self) -> dict[int, int]:
        """The next offset to write of each partition; empty until reading has begun."""
        ...


class Waits:
    """What the service waits for, by whom: it is ready only when nobody waits."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._reasons: dict[str, str] = {}

    def teller(self, who: str) -> Callable[[str | None], None]:
        """Gives the function by which one part says what it waits for, or that it goes on."""

        def tell(reason: str | None) -> None:
            if reason is None:
                self._reasons.pop(who, None)
            else:
                self._reasons[who] = reason
            self._health.waiting(next(iter(self._reasons.values()), None))

        return tell

    def __bool__(self) -> bool:
        return bool(self._reasons)


async def watch(
    source: Log, topic: Topic, indexed: Positions, health: Health, waits: Waits, stuck_s: float
) -> None:
    """Keeps lag and readiness up to date until cancelled. Raises StuckError."""
    progress, tell = Progress(stuck_s), waits.teller("log")
    while True:
        try:
            ends = await source.ends(topic.name)
            tell(None)
        except TransientError:
            tell("waiting for the log")
            ends = None
        now_s = monotonic_s()
        if ends is not None:
            positions = indexed.positions
            health.set_lag(topic.name, progress.lag_s(ends, positions, now_s))
            health.ready = health.ready or (bool(positions) and progress.is_level)
        if waits:
            progress.excuse(now_s)
        progress.check(now_s)
        await asyncio.sleep(EVERY_S)
