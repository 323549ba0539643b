"""The scheduler's wiring: settings, log, recovery, reactor, projection."""

from trackside.eventlog.reactor import Reactor
from trackside.eventlog.recovery import recover
from trackside.eventlog.serving import Service, from_end, from_start, run_service, until_fit
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.projections.beside import project
from trackside.projections.snapshots import PostgresSnapshots
from trackside.scheduler.service import Scheduler
from trackside.scheduler.settings import SchedulerSettings


def main() -> None:
    """Runs the scheduler until it is told to stop."""
    settings = read_settings(SchedulerSettings)
    run_service("scheduler", read_settings(StackSettings), lambda service: _run(service, settings))


async def _run(service: Service, settings: SchedulerSettings) -> None:
    topics = service.settings.topics
    if not await until_fit(service, [topics.events, topics.fleet, topics.heartbeats]):
        return
    snapshots = PostgresSnapshots(service.settings.postgres_dsn)
    streams, starts = await recover(snapshots, service.log, topics.events)
    scheduler = Scheduler(service.log, topics, service.author, streams, service.background, settings)
    reactor = Reactor(
        service.log,
        service.author,
        scheduler,
        starts=starts
        | await from_start(service.log, topics.fleet)
        | await from_end(service.log, topics.heartbeats),
        raw={},
        partitions={
            topics.events.name: topics.events.partitions,
            topics.fleet.name: topics.fleet.partitions,
        },
        health=service.health,
        background=service.background,
        standby=settings.standby,
    )
    service.background.spawn(project("scheduler", service))
    await reactor.run(service.stop)
