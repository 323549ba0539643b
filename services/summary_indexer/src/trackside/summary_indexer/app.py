"""The summary-indexer's wiring: settings, log, Postgres, the stream of metrics, the dead letters."""

from trackside.eventlog.service_context import ServiceContext
from trackside.eventlog.serving import run_service, wait_for_topics
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.projections.owners import SUMMARY_INDEXER
from trackside.projections.postgres import database
from trackside.projections.runner import run_projection
from trackside.summary_indexer.indexing import Indexer
from trackside.summary_indexer.rollup import run_rollup
from trackside.summary_indexer.settings import SummaryIndexerSettings
from trackside.summary_indexer.source import Source
from trackside.summary_indexer.store import PointsStore
from trackside.summary_indexer.watch import Waits, watch


def main() -> None:
    """Runs the summary-indexer until it is told to stop."""
    settings = read_settings(SummaryIndexerSettings)
    run_service("summary-indexer", read_settings(StackSettings), lambda service: _run(service, settings))


async def _run(service: ServiceContext, settings: SummaryIndexerSettings) -> None:
    topics, dsn = service.topics, service.settings.postgres_dsn
    if not await wait_for_topics(service, [topics.metrics, topics.dead_letters]):
        return
    waits = Waits(service.health)
    source = Source(service.log, topics, service.writer)
    async with database(dsn) as opened:
        indexer = Indexer(
            PointsStore(opened, topics.metrics, waits.teller("points")),
            source,
            batch_points=settings.batch_points,
            buffer_points=settings.buffer_points,
        )
        service.background.alarm = service.stop.set
        for work in (
            indexer.write_on(),
            run_rollup(service.settings, settings.session_timeout_s, indexer),
            run_projection(
                SUMMARY_INDEXER,
                service.log,
                topics,
                dsn,
                stop=service.stop,
                on_waiting=waits.teller("dead letters"),
            ),
            watch(service.log, topics.metrics, indexer, service.health, waits, settings.stuck_s),
        ):
            service.background.spawn(work)
        await service.stop.wait()
        await service.background.close()
    if service.background.failure is not None:
        raise service.background.failure
