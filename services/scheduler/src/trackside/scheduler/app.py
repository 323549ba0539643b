"""The scheduler's wiring: settings, log, recovery, reactor, projection."""

from functools import partial

import structlog

from trackside.eventlog.log_id import named_log
from trackside.eventlog.reactor.log_lag import follow_log_lag
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.recovery import recover
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import from_end, from_start, run_service, wait_for_topics
from trackside.eventlog.retry import retry_with_timeout
from trackside.eventlog.settings.settings import StackSettings, read_settings
from trackside.projections.database.postgres import report_until_postgres_is_reachable
from trackside.projections.tables.owners import OWNERS, SCHEDULER
from trackside.projections.writing.peaks import newest_peaks
from trackside.projections.writing.row_changes import RowChanges
from trackside.projections.writing.service_rows import keep_rows
from trackside.projections.writing.snapshots import PostgresSnapshots
from trackside.projections.writing.stream_keys import PostgresStreamKeys
from trackside.scheduler.hosts.estimates import LEARNED_ATTEMPTS, MemoryPeaks
from trackside.scheduler.service import Scheduler
from trackside.scheduler.settings import SchedulerSettings

log = structlog.get_logger("trackside.scheduler")


def main() -> None:
    """Runs the scheduler until it is stopped."""
    settings = read_settings(SchedulerSettings)
    stack = read_settings(StackSettings)
    keys = PostgresStreamKeys(stack.postgres_dsn)
    run_service("scheduler", stack, lambda service: _run(service, settings), keys=keys)


async def _run(service: ServiceContext, settings: SchedulerSettings) -> None:
    service.background.spawn(report_until_postgres_is_reachable(service.settings.postgres_dsn, log.error))
    topics = service.topics
    if not await wait_for_topics(service, [topics.events, topics.fleet, topics.heartbeats]):
        return
    named = await retry_with_timeout(partial(named_log, service.log, topics), topics.events.name)
    snapshots = PostgresSnapshots(service.settings.postgres_dsn, named)
    streams, starts = await recover(snapshots, service.log, topics.events)
    peaks = await recovered_peaks(service.settings.postgres_dsn) if streams.positions else None
    starts |= await from_start(service.log, topics.fleet)
    changes = RowChanges(OWNERS[SCHEDULER], topics)
    if not settings.standby:
        changes.start(starts)
    scheduler = Scheduler(service, streams, settings, peaks, changes)
    reactor = Reactor(
        service,
        scheduler,
        starts=starts | await from_end(service.log, topics.heartbeats),
        raw={},
        partitions={
            topics.events.name: topics.events.partitions,
            topics.fleet.name: topics.fleet.partitions,
        },
        standby=settings.standby,
    )
    service.background.spawn(keep_rows(service, changes, streams, reactor, standby=settings.standby))
    service.background.spawn(scheduler.read_released(reactor.wake))
    service.background.spawn(follow_log_lag(service.log, reactor, service.health))
    await reactor.run()


async def recovered_peaks(dsn: str) -> MemoryPeaks:
    """Returns the peaks of attempts that ended before the snapshots, and so are in no folded state."""
    peaks = MemoryPeaks()
    for peak in await newest_peaks(dsn, LEARNED_ATTEMPTS):
        peaks.add(peak.task_type, peak.memory_bytes, peak.cuda_memory_bytes)
    return peaks
