"""The scheduler's wiring: settings, log, recovery, reactor, projection."""

from trackside.domain.streams import Streams
from trackside.eventlog.reactor import Reactor
from trackside.eventlog.serving import Service, from_end, from_start, run_service, until_fit
from trackside.eventlog.settings import StackSettings, read_settings
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
    streams = Streams()
    scheduler = Scheduler(service.log, topics, service.author, streams, service.background, settings)
    starts = await from_start(service.log, topics.events) | await from_start(service.log, topics.fleet)
    reactor = Reactor(
        service.log,
        service.author,
        scheduler,
        starts=starts | await from_end(service.log, topics.heartbeats),
        raw={},
        partitions={
            topics.events.name: topics.events.partitions,
            topics.fleet.name: topics.fleet.partitions,
        },
        health=service.health,
        background=service.background,
        standby=settings.standby,
    )
    await reactor.run(service.stop)
