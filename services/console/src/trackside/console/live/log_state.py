"""Compares the read models with the log, so that open pages say when they are not up to date, and why."""

import asyncio

from trackside.console.live.hub import Hub
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.service_context import ServiceContext
from trackside.projections.owners import DISPATCHER, SCHEDULER
from trackside.projections.postgres import PostgresGoneError, SchemaMissingError
from trackside.projections.read_pool import ReadModelsPool

EVERY_S = 1.0
LIMIT_S = 5.0
PATIENCE_S = 3.0
"""How long rows may be older than the log without a word of it: they are written some times a second."""


async def watch_log(service: ServiceContext, pool: ReadModelsPool, hub: Hub) -> None:
    """Compares positions with the ends of the log once a second, until cancelled."""
    behind_since: dict[str, float] = {}
    while True:
        try:
            async with asyncio.timeout(LIMIT_S):
                ends = await service.log.ends(service.topics.events.name)
            hub.state("kafka", "")
        except (TransientError, TimeoutError):
            hub.state("kafka", "Kafka does not answer; nothing changes until it is back")
            await asyncio.sleep(EVERY_S)
            continue
        try:
            async with asyncio.timeout(LIMIT_S), pool.read() as models:
                positions = await models.positions()
            hub.state("postgres", "")
        except (PostgresGoneError, SchemaMissingError, TimeoutError):
            hub.state("postgres", "Postgres does not answer; pages stay as they are until it is back")
            await asyncio.sleep(EVERY_S)
            continue
        for owner in (DISPATCHER, SCHEDULER):
            topic = service.topics.events.name
            missing = sum(end - positions.get((owner, topic, each), 0) for each, end in ends.items())
            since = behind_since.setdefault(owner, monotonic_s())
            if missing <= 0:
                del behind_since[owner]
            late = missing > 0 and monotonic_s() - since > PATIENCE_S
            what = f"The rows of the {owner} lack {missing:,} events of the log; is the {owner} running?"
            hub.state(f"rows of the {owner}", what.rstrip(".") if late else "")
        await asyncio.sleep(EVERY_S)
