"""How far a service is from the end of the log, and whether the log answers. Requested from the broker."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Log
from trackside.eventlog.reactor.reactor import Reactor
from trackside.telemetry.health import Health
from trackside.telemetry.metrics import gauge

EVERY_S: Final = 2.0


@dataclass(slots=True)
class _Goal:
    """The end that a topic had at a time, until it is folded to there."""

    ends: dict[int, int]
    since_s: float
    empty_reads: int = field(default=0)


async def follow_log_lag(log: Log, reactor: Reactor, health: Health) -> None:
    """Sets the lag of each topic, and whether the log answers, every two seconds until it is cancelled.

    A topic has no lag once it is folded to the end that the broker named. While the broker does not respond,
    the service is not ready, and the lag is the time since it last had none: a reader returns no records then
    either, as it does at the end of the log.
    """
    goals = {topic: _Goal({}, monotonic_s()) for topic in reactor.topics}
    while True:
        try:
            ends = await log.ends_of(goals)
        except TransientError as error:
            health.waiting(f"waiting for the log: {error}")
            for topic, goal in goals.items():
                health.set_lag(topic, monotonic_s() - goal.since_s)
        else:
            health.waiting(None)
            goals = {
                topic: _measured(topic, goal, ends[topic], reactor, health) for topic, goal in goals.items()
            }
        await asyncio.sleep(EVERY_S)


def _measured(topic: str, goal: _Goal, ends: dict[int, int], reactor: Reactor, health: Health) -> _Goal:
    """Sets the lag of a topic that ends at `ends` now; returns what it has to be folded to next."""
    behind = reactor.records_before(topic, goal.ends)
    if behind and not reactor.has_read_all(topic, goal.empty_reads):
        health.set_lag(topic, monotonic_s() - goal.since_s)
        gauge("trackside.health.log_lag.records").labels(topic).set(reactor.records_before(topic, ends))
        return goal
    health.set_lag(topic, 0.0)
    gauge("trackside.health.log_lag.records").labels(topic).set(
        0 if behind else reactor.records_before(topic, ends)
    )
    return _Goal(ends, monotonic_s(), reactor.empty_reads)
