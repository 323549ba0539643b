"""The dispatcher's wiring: settings, log, recovery, reactor, projection."""

import sys
from contextlib import closing
from functools import partial
from importlib.metadata import version

import structlog

from trackside.dispatcher.advice.advice_loop import AdviceLoop
from trackside.dispatcher.advice.advisor_process import AdvisorProcess
from trackside.dispatcher.advice.remote_advisors import RemoteAdvisors
from trackside.dispatcher.intake.intake import next_commands
from trackside.dispatcher.intake.publisher_limits import (
    BadLimitsError,
    PublisherLimit,
    PublisherLimits,
    read_limits,
)
from trackside.dispatcher.intake.publisher_policy import PublisherPolicy
from trackside.dispatcher.intake.receipt_positions import ReceiptPositions, earliest
from trackside.dispatcher.intake.receipts import Receipts
from trackside.dispatcher.intake.signatures import BadKeysError, SignatureVerifier, read_keys
from trackside.dispatcher.service import Dispatcher
from trackside.dispatcher.settings import DispatcherSettings, topics_of
from trackside.domain.folding.streams import Streams
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import TopicPartition
from trackside.eventlog.log_id import named_log
from trackside.eventlog.reactor.log_lag import follow_log_lag
from trackside.eventlog.reactor.reactor import Reactor
from trackside.eventlog.reactor.recovery import recover
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.reactor.serving import from_end, from_start, run_service, wait_for_topics
from trackside.eventlog.reactor.stuck_decisions import StuckDecisions
from trackside.eventlog.retry import retry_with_timeout
from trackside.eventlog.settings.settings import StackSettings, read_settings
from trackside.projections.database.postgres import report_until_postgres_is_reachable
from trackside.projections.past.forgetting import keep_forgotten
from trackside.projections.past.open_store import open_past_store
from trackside.projections.past.schedule import keep_past
from trackside.projections.tables.owners import DISPATCHER, OWNERS
from trackside.projections.writing.row_changes import RowChanges
from trackside.projections.writing.service_rows import keep_rows
from trackside.projections.writing.snapshots import PostgresSnapshots
from trackside.projections.writing.stream_keys import PostgresStreamKeys

log = structlog.get_logger("trackside.dispatcher")


def main() -> None:
    """Runs the dispatcher until it is stopped."""
    settings, stack = read_settings(DispatcherSettings), read_settings(StackSettings)
    policy = PublisherPolicy(_signatures(settings), _limits(settings))
    keys = PostgresStreamKeys(stack.postgres_dsn)
    run_service("dispatcher", stack, lambda service: _run(service, settings, policy), keys=keys)


def _signatures(settings: DispatcherSettings) -> SignatureVerifier:
    """Reads the keys; exits with 2 if they can't be used."""
    if settings.signatures == "off":
        return SignatureVerifier()
    try:
        if settings.keys_file is None:
            raise BadKeysError(f"must be set where signatures are `{settings.signatures}`")
        return SignatureVerifier(settings.signatures, read_keys(settings.keys_file))
    except BadKeysError as error:
        sys.stderr.write(f"TRACKSIDE_DISPATCHER_KEYS_FILE: {error}\n")
        raise SystemExit(2) from error


def _limits(settings: DispatcherSettings) -> PublisherLimits:
    """Reads the limits of publishers; exits with 2 if they can't be used."""
    default = PublisherLimit(settings.max_commands_per_s, settings.max_open_streams)
    if settings.limits_file is None:
        return PublisherLimits(default)
    try:
        return PublisherLimits(default, read_limits(settings.limits_file, default))
    except BadLimitsError as error:
        sys.stderr.write(f"TRACKSIDE_DISPATCHER_LIMITS_FILE: {error}\n")
        raise SystemExit(2) from error


async def _run(service: ServiceContext, settings: DispatcherSettings, policy: PublisherPolicy) -> None:
    service.background.spawn(report_until_postgres_is_reachable(service.settings.postgres_dsn, log.error))
    topics = service.topics
    needed = [topics.events, topics.commands, topics.fleet, topics.dead_letters]
    requests = [topics.suggestion_requests, topics.assessment_requests]
    if not await wait_for_topics(service, [*needed, *requests, topics.suggestions, topics.assessments]):
        return
    limit_s = settings.tuner_time_limit_s
    advice = AdviceLoop(
        AdvisorProcess("tuner", timeout_s=limit_s),
        AdvisorProcess("assessor", timeout_s=limit_s),
        service.background,
        AdvisorProcess("own-tuner", timeout_s=limit_s),
        AdvisorProcess("own-assessor", timeout_s=limit_s),
        RemoteAdvisors(service.log, service.writer, topics, policy.signatures, limit_s),
    )
    service.background.spawn(advice.start())
    try:
        with closing(_stuck_decisions(service.settings)) as service.stuck:
            await _decide(service, settings, policy, advice)
    finally:
        await advice.close()


def _stuck_decisions(stack: StackSettings) -> StuckDecisions:
    name, release = f"dispatcher-{stack.instance}", version("trackside")
    return StuckDecisions(stack.state_folder, name, release, stack.decision_limit_s)


async def _decide(
    service: ServiceContext, settings: DispatcherSettings, policy: PublisherPolicy, advice: AdviceLoop
) -> None:
    """Recovers while the advisors start, then decides until it is stopped."""
    topics = service.topics
    named = await retry_with_timeout(partial(named_log, service.log, topics), topics.events.name)
    snapshots = PostgresSnapshots(service.settings.postgres_dsn, named)
    streams, starts = await recover(snapshots, service.log, topics.events)
    receipts, raw = await _receipts(service, settings, streams)
    for answers in (topics.suggestions, topics.assessments):
        raw |= await from_end(service.log, answers)
    changes = RowChanges(OWNERS[DISPATCHER], topics)
    if not settings.standby:
        changes.start(starts)
    dispatcher = Dispatcher(
        service, streams, advice, receipts, policy, standby=settings.standby, changes=changes
    )
    dispatcher.encryption.every = settings.encrypt_streams == "all"
    reactor = Reactor(
        service,
        dispatcher,
        starts=starts | await from_start(service.log, topics.fleet),
        raw=raw,
        partitions={topics.events.name: topics.events.partitions},
        standby=settings.standby,
        decoded=partial(decode, on_unreadable=dispatcher.unreadable),
    )
    reactor.paused = dispatcher.paused_topics
    service.background.spawn(dispatcher.rereading.run(reactor.wake))
    service.background.spawn(dispatcher.read_released(reactor.wake))
    service.background.spawn(dispatcher.encryption.new_keys.run(reactor.wake))
    advice.ready = reactor.wake
    service.background.spawn(keep_rows(service, changes, streams, reactor, standby=settings.standby))
    service.background.spawn(follow_log_lag(service.log, reactor, service.health))
    past = open_past_store(service.settings.past_folder, service.settings.postgres_dsn)
    forgotten = dispatcher.forgotten_at
    service.background.spawn(keep_forgotten(past, topics.events.name, lambda: forgotten))
    if settings.past_bytes and not settings.standby:
        limit = settings.past_bytes // topics.events.partitions
        service.background.spawn(keep_past(lambda: reactor.positions, topics.events.name, limit))
    await reactor.run()


async def _receipts(
    service: ServiceContext, settings: DispatcherSettings, streams: Streams
) -> tuple[Receipts | None, dict[TopicPartition, int]]:
    """Returns the sender of receipts, if any topics are allowed, and where to read the commands from."""
    topics = topics_of(settings.receipt_topics)
    first = await from_start(service.log, service.topics.commands)
    starts = next_commands(streams, first)
    if not topics:
        return None, starts
    receipts = Receipts(service.log, service.writer, service.background, topics)
    stored = ReceiptPositions(service.settings.postgres_dsn, service.topics.commands.name)
    known = await stored.load()
    starts = {
        partition: earliest(partition, start, first[partition], known) for partition, start in starts.items()
    }
    service.background.spawn(stored.follow(receipts.positions))
    return receipts, starts
