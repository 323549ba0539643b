"""The dispatcher's wiring: settings, log, recovery, reactor, projection."""

from trackside.dispatcher.advice import Advice
from trackside.dispatcher.intake import next_commands
from trackside.dispatcher.lanes import Lane
from trackside.dispatcher.service import Dispatcher
from trackside.dispatcher.settings import DispatcherSettings
from trackside.eventlog.reactor import Reactor
from trackside.eventlog.recovery import recover
from trackside.eventlog.serving import Service, from_start, run_service, until_fit
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.projections.beside import project
from trackside.projections.snapshots import PostgresSnapshots


def main() -> None:
    """Runs the dispatcher until it is told to stop."""
    settings = read_settings(DispatcherSettings)
    run_service("dispatcher", read_settings(StackSettings), lambda service: _run(service, settings))


async def _run(service: Service, settings: DispatcherSettings) -> None:
    topics = service.settings.topics
    if not await until_fit(service, [topics.events, topics.commands, topics.fleet, topics.dead_letters]):
        return
    snapshots = PostgresSnapshots(service.settings.postgres_dsn)
    streams, starts = await recover(snapshots, service.log, topics.events)
    limit_s = settings.tuner_time_limit_s
    lanes = [Lane(name, timeout_s=limit_s) for name in ("tuner", "assessor", "own-tuner")]
    advice = Advice(lanes[0], lanes[1], service.background, lanes[2])
    dispatcher = Dispatcher(service.log, topics, service.author, streams, advice, service.background)
    reactor = Reactor(
        service.log,
        service.author,
        dispatcher,
        starts=starts | await from_start(service.log, topics.fleet),
        raw=next_commands(streams, await from_start(service.log, topics.commands)),
        partitions={topics.events.name: topics.events.partitions},
        health=service.health,
        background=service.background,
        standby=settings.standby,
    )
    advice.ready = reactor.wake
    service.background.spawn(advice.start())
    service.background.spawn(project("dispatcher", service))
    try:
        await reactor.run(service.stop)
    finally:
        await advice.close()
