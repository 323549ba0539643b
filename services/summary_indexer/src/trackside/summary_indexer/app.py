"""The summary-indexer's wiring: settings, log, Postgres, metrics, dead letters."""

from functools import partial
from pathlib import Path

import structlog

from trackside.artifacts.settings import StoreSettings
from trackside.eventlog.keys.encryption import Decryption
from trackside.eventlog.log_id import named_log
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import run_service, wait_for_topics
from trackside.eventlog.retry import retry_with_timeout
from trackside.eventlog.settings.settings import StackSettings, read_settings
from trackside.projections.database.failed_transactions import count_failures
from trackside.projections.database.postgres import database, report_until_postgres_is_reachable
from trackside.projections.database.reader_sessions import end_long_sessions
from trackside.projections.tables.owners import SUMMARY_INDEXER
from trackside.projections.writing.runner import Pace, run_projection
from trackside.projections.writing.stream_keys import PostgresStreamKeys
from trackside.sdk.connection.signing import read_signer
from trackside.summary_indexer.api.opening import open_reads
from trackside.summary_indexer.api.server import SummaryApi
from trackside.summary_indexer.detail.commands import follow_cache_commands
from trackside.summary_indexer.faust_consumer import run_consumer
from trackside.summary_indexer.indexing import Indexer
from trackside.summary_indexer.liveness import WaitReasons, watch_liveness
from trackside.summary_indexer.metrics_log import MetricsLog
from trackside.summary_indexer.purging import purge_deleted_jobs
from trackside.summary_indexer.settings import SummaryIndexerSettings
from trackside.summary_indexer.store import PointsStore
from trackside.summary_indexer.updater_failures import FailureReporter
from trackside.summary_indexer.updaters import UpdaterRunner, installed_updaters
from trackside.summary_indexer.watching.settings import SummaryDirectoriesSettings
from trackside.summary_indexer.watching.tag_limits import IndexedTags
from trackside.summary_indexer.watching.watched_directories import watch_directories
from trackside.telemetry.metrics import declare

log = structlog.get_logger("trackside.summary_indexer")
FEW_RECORDS = Pace(gather_s=0)
"""Of dead letters: the broker answers when there is one, instead of seven times a second."""


def main() -> None:
    """Runs the summary-indexer until it is stopped."""
    settings = read_settings(SummaryIndexerSettings)
    directories, store = read_settings(SummaryDirectoriesSettings), read_settings(StoreSettings)
    api = SummaryApi()
    stack = read_settings(StackSettings)
    run_service(
        "summary-indexer",
        stack,
        lambda service: _run(service, settings, directories, store, api),
        keys=PostgresStreamKeys(stack.postgres_dsn),
        serve=api.serve,
    )


async def _run(
    service: ServiceContext,
    settings: SummaryIndexerSettings,
    directories: SummaryDirectoriesSettings,
    store: StoreSettings,
    api: SummaryApi,
) -> None:
    service.background.spawn(report_until_postgres_is_reachable(service.settings.postgres_dsn, log.error))
    topics = service.topics
    if not await wait_for_topics(service, [topics.metrics, topics.dead_letters, topics.fleet]):
        return
    named = await retry_with_timeout(
        partial(named_log, service.log, topics, topics.metrics), topics.metrics.name
    )
    wait_reasons = WaitReasons(service.health)
    metrics_log = MetricsLog(service.log, topics, service.writer)
    declare("trackside.eventlog.dead_letters.records", topic=[topics.metrics.name])
    on_waiting = count_failures(SUMMARY_INDEXER, wait_reasons.reporter("points"))
    dsn = service.settings.postgres_dsn
    # Each has one connection: on one in common, points would wait for the transactions of the others.
    async with database(dsn) as opened, database(dsn) as for_updaters, database(dsn) as for_purges:
        installed, broken = installed_updaters()
        failures = FailureReporter(service)
        updaters = UpdaterRunner(for_updaters, installed, failures.report)
        indexer = Indexer(
            PointsStore(opened, topics.metrics, on_waiting, named),
            metrics_log,
            batch_points=settings.batch_points,
            buffer_points=settings.buffer_points,
            on_written=updaters.touch,
            decryption=Decryption(PostgresStreamKeys(dsn)),
        )
        service.background.alarm = service.stop.set
        for name, error in broken.items():
            service.background.spawn(failures.report(name, error))
        for work in (
            indexer.run_writer(),
            run_consumer(service.settings, settings.session_timeout_s, indexer),
            updaters.run(),
            _serve_reads(service, settings, store, api),
            run_projection(
                SUMMARY_INDEXER, service, on_waiting=wait_reasons.reporter("dead letters"), pace=FEW_RECORDS
            ),
            purge_deleted_jobs(service, for_purges),
            end_long_sessions(dsn),
            watch_liveness(
                service.log, topics.metrics, indexer, service.health, wait_reasons, settings.stuck_s
            ),
        ):
            service.background.spawn(work)
        if directories.paths:
            service.background.spawn(_watch(service, directories, store))
        await service.stop.wait()
        await service.background.close()
    if service.background.failure is not None:
        raise service.background.failure


async def _watch(service: ServiceContext, settings: SummaryDirectoriesSettings, store: StoreSettings) -> None:
    """Reads event files into the log; what they hold comes back from there as from any writer."""
    if await wait_for_topics(service, [service.topics.events, service.topics.commands]):
        signer = read_signer(Path(settings.signing_key)) if settings.signing_key else None
        indexed = IndexedTags(service.settings.postgres_dsn)
        await watch_directories(
            service, store, settings.paths, settings.look_s, signer=signer, indexed=indexed
        )


async def _serve_reads(
    service: ServiceContext, settings: SummaryIndexerSettings, store: StoreSettings, api: SummaryApi
) -> None:
    """Answers requests for summaries, and loads jobs as commands ask for it, until cancelled."""
    with open_reads(service.settings.postgres_dsn, settings, store) as reads:
        api.reads = reads
        await follow_cache_commands(service.log, service.topics.events, reads.curves)
