"""Compares the read models with the log, so that open pages say when they are not up to date, and why."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from trackside.console.live.hub import Hub
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.projections.database.postgres import PostgresGoneError, SchemaMissingError
from trackside.projections.reading.read_pool import ReadModelsPool
from trackside.projections.tables.owners import DISPATCHER, SCHEDULER

EVERY_S = 1.0
LIMIT_S = 5.0
PATIENCE_S = 3.0
"""How long rows may lack an event of the log without a word of it: they are written some times a second."""


@dataclass(slots=True)
class RowDelay:
    """Tells rows that are late from rows that follow a log in which events are always added.

    The ends of the log are noted, and noted anew once the rows have got there.
    """

    _noted: Mapping[int, int] = field(default_factory=dict)
    _noted_s: float = 0.0

    def missing(self, shown: Mapping[int, int], ends: Mapping[int, int], now_s: float) -> int:
        """Returns how many events of the log the rows lack if they are late, else 0; all by partition."""
        if all(shown.get(each, 0) >= end for each, end in self._noted.items()):
            self._noted, self._noted_s = dict(ends), now_s
        if now_s - self._noted_s <= PATIENCE_S:
            return 0
        return sum(max(0, end - shown.get(each, 0)) for each, end in ends.items())


async def watch_log(service: ServiceContext, pool: ReadModelsPool, hub: Hub) -> None:
    """Compares positions with the ends of the log once a second while pages are open, until cancelled."""
    topic = service.topics.events.name
    delays = {owner: RowDelay() for owner in (DISPATCHER, SCHEDULER)}
    while True:
        try:
            async with asyncio.timeout(LIMIT_S):
                ends = await service.log.ends(topic)
            hub.state("kafka", "")
        except (TransientError, TimeoutError):
            hub.state("kafka", "Kafka does not answer; nothing changes until it is back")
            await hub.pause(EVERY_S)
            continue
        try:
            async with asyncio.timeout(LIMIT_S), pool.read() as models:
                positions = await models.positions()
            hub.state("postgres", "")
        except (PostgresGoneError, SchemaMissingError, TimeoutError):
            hub.state("postgres", "Postgres does not answer; pages stay as they are until it is back")
            await hub.pause(EVERY_S)
            continue
        for owner, delay in delays.items():
            shown = {each: positions.get((owner, topic, each), 0) for each in ends}
            missing = delay.missing(shown, ends, monotonic_s())
            what = f"The rows of the {owner} lack {missing:,} events of the log; it may not run"
            hub.state(f"rows of the {owner}", what if missing else "")
        await hub.pause(EVERY_S)
