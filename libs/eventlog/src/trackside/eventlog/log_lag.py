"""How far a service is from the end of the log: records, and since when. Requested from the broker."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Log
from trackside.eventlog.reactor import Reactor
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
    """Sets the lag of each topic every two seconds until it is cancelled.

    A topic has no lag once it is folded to the end that the broker named; while the broker does not respond,
    the lag is the time since it last had none.
    """
    goals = {topic: _Goal({}, monotonic_s()) for topic in reactor.topics}
    while True:
        for topic, goal in goals.items():
            try:
                ends = await log.ends(topic)
            except TransientError:
                health.set_lag(topic, monotonic_s() - goal.since_s)
                continue
            behind = reactor.records_before(topic, goal.ends)
            if not behind or reactor.has_read_all(topic, goal.empty_reads):
                goals[topic] = _Goal(ends, monotonic_s(), reactor.empty_reads)
                behind = reactor.records_before(topic, ends) if behind == 0 else 0
                health.set_lag(topic, 0.0)
            else:
                health.set_lag(topic, monotonic_s() - goal.since_s)
                behind = reactor.records_before(topic, ends)
            gauge("trackside.health.log_lag.records").labels(topic).set(behind)
        await asyncio.sleep(EVERY_S)
