"""The summary-indexer's wiring: settings, log, Postgres, metrics, dead letters."""

from functools import partial

import structlog

from trackside.eventlog.retry import retry_with_timeout
from trackside.eventlog.service_context import ServiceContext
from trackside.eventlog.serving import run_service, wait_for_topics
from trackside.eventlog.settings import StackSettings, read_settings
from trackside.projections.log_identity import log_id_of
from trackside.projections.owners import SUMMARY_INDEXER
from trackside.projections.postgres import database
from trackside.projections.reachability import say_until_postgres_answers
from trackside.projections.runner import run_projection
from trackside.summary_indexer.faust_consumer import run_consumer
from trackside.summary_indexer.indexing import Indexer
from trackside.summary_indexer.liveness import WaitReasons, watch_liveness
from trackside.summary_indexer.metrics_log import MetricsLog
from trackside.summary_indexer.settings import SummaryIndexerSettings
from trackside.summary_indexer.store import PointsStore

log = structlog.get_logger("trackside.summary_indexer")


def main() -> None:
    """Runs the summary-indexer until it is stopped."""
    settings = read_settings(SummaryIndexerSettings)
    run_service("summary-indexer", read_settings(StackSettings), lambda service: _run(service, settings))


async def _run(service: ServiceContext, settings: SummaryIndexerSettings) -> None:
    service.background.spawn(say_until_postgres_answers(service.settings.postgres_dsn, log.error))
    topics = service.topics
    if not await wait_for_topics(service, [topics.metrics, topics.dead_letters]):
        return
    log_id = await retry_with_timeout(partial(log_id_of, service.log, topics), topics.metrics.name)
    wait_reasons = WaitReasons(service.health)
    metrics_log = MetricsLog(service.log, topics, service.writer)
    async with database(service.settings.postgres_dsn) as opened:
        indexer = Indexer(
            PointsStore(opened, topics.metrics, wait_reasons.reporter("points"), log_id),
            metrics_log,
            batch_points=settings.batch_points,
            buffer_points=settings.buffer_points,
        )
        service.background.alarm = service.stop.set
        for work in (
            indexer.run_writer(),
            run_consumer(service.settings, settings.session_timeout_s, indexer),
            run_projection(SUMMARY_INDEXER, service, on_waiting=wait_reasons.reporter("dead letters")),
            watch_liveness(
                service.log, topics.metrics, indexer, service.health, wait_reasons, settings.stuck_s
            ),
        ):
            service.background.spawn(work)
        await service.stop.wait()
        await service.background.close()
    if service.background.failure is not None:
        raise service.background.failure
