"""How every service process starts and ends: telemetry, health, signals, exit code."""

import asyncio
import faulthandler
import platform
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from importlib.metadata import version
from typing import Protocol

import structlog
import uvloop

from trackside.contracts.envelope.topics import Topic
from trackside.contracts.wire.topic_rights import rights_of
from trackside.eventlog.background import Background
from trackside.eventlog.errors import PreflightError, TransientError
from trackside.eventlog.garbage import collecting_seldom
from trackside.eventlog.kafka.kafka_log import KafkaLog
from trackside.eventlog.kafka.kafka_probe import ask_kafka
from trackside.eventlog.kafka.rights_watch import watch_rights
from trackside.eventlog.keys.encryption import StreamKeys
from trackside.eventlog.keys.record_writer import RecordWriter
from trackside.eventlog.log import Log, TopicPartition
from trackside.eventlog.reachability import report_until_reachable
from trackside.eventlog.reactor.service_context import ServiceContext
from trackside.eventlog.retry import retry_with_timeout
from trackside.eventlog.settings.settings import StackSettings
from trackside.telemetry import metrics
from trackside.telemetry.health import Health, serve
from trackside.telemetry.process_start import STOP_SIGNALS
from trackside.telemetry.setup import configure

logger = structlog.get_logger("trackside.eventlog")

RETRY_S = 0.2


class Serve(Protocol):
    """Serves the health of a process while its block runs, as `telemetry.health.serve` does."""

    def __call__(self, health: Health, port: int, *, host: str) -> AbstractAsyncContextManager[int]:
        """Yields the bound port."""
        ...


def run_service(
    role: str,
    settings: StackSettings,
    run: Callable[[ServiceContext], Awaitable[None]],
    serve: Serve = serve,
    *,
    principal: str = "",
    keys: StreamKeys | None = None,
) -> None:
    """Runs a service until SIGTERM or SIGINT; logs the reason and exits with 1 if it can't continue.

    `serve` serves `/health`, `/ready` and `/metrics`, and maybe more. `principal` is whose rights it needs,
    the role's if not given. `keys` are those of encrypted streams.
    """
    telemetry = configure(role, instance=settings.instance)
    faulthandler.enable()  # on SIGABRT too, which a supervisor sends to a service that is stuck
    try:
        with collecting_seldom():
            log = partial(KafkaLog, settings, f"trackside-{role}", waits_for_rights=True, keys=keys)
            uvloop.run(_run(log, role, settings, run, serve, principal or role))
    except Exception as error:
        logger.error(
            "service stopped", service=role, reason=str(error) or type(error).__name__, exc_info=error
        )
        raise SystemExit(1) from error
    finally:
        telemetry.shutdown()


async def _run(
    open_log: Callable[[], KafkaLog],
    role: str,
    settings: StackSettings,
    run: Callable[[ServiceContext], Awaitable[None]],
    serve: Serve,
    principal: str,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    _register_metrics(role)
    health = Health(role)
    background = Background()
    async with (
        open_log() as log,
        serve(health, settings.health_port, host=settings.health_host) as port,
    ):
        logger.info("service started", service=role, health_port=port)
        kafka = f"Kafka at {settings.kafka_bootstrap}"
        background.spawn(report_until_reachable(kafka, partial(ask_kafka, settings), logger.error))
        writer = RecordWriter(role, settings.instance, settings.signer)
        service = ServiceContext(log, settings.topics, writer, health, settings, background, stop)
        service.permitted.clear()
        needed = rights_of(principal, settings.topics)
        background.spawn(watch_rights(settings, needed, health, service.permitted))
        try:
            await run(service)
        finally:
            await background.close()
        await _linger(health, settings.metrics_linger_s)


async def _linger(health: Health, limit_s: float) -> None:
    """Serves the last counts until they were scraped, at most for `limit_s` seconds."""
    health.ready = False
    health.scraped.clear()
    with suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await health.scraped.wait()


def _register_metrics(role: str) -> None:
    service = role.replace("-", "_")
    metrics.register("build", "health", "eventlog", service)
    build = metrics.gauge("trackside.build.info")
    build.labels(role, version("trackside"), platform.python_version()).set(1)


async def wait_for_topics(service: ServiceContext, topics: list[Topic]) -> bool:
    """Waits for the broker, then checks the topics; returns False if told to stop before that.

    Raises PreflightError when a topic is missing or its retention is too short; waits for missing rights.
    """
    while not service.stop.is_set():
        try:
            if not service.permitted.is_set():  # else a topic that it may not see would seem not to exist
                raise TransientError("it is not known what the broker permits")
            await service.log.ends(topics[0].name)
            await service.log.preflight(topics)
        except TransientError as error:
            service.health.waiting("waiting for the log")
            logger.debug("no log yet", reason=str(error))
            await asyncio.sleep(RETRY_S)
        else:
            service.health.waiting(None)
            return True
    return False


async def from_start(log: Log, topic: Topic) -> dict[TopicPartition, int]:
    """Returns the position of the first record of each partition; raises PreflightError if some are gone."""
    beginnings = await retry_with_timeout(partial(log.beginnings, topic.name), topic.name)
    for partition, offset in beginnings.items():
        if offset and topic.retention_ms < 0:
            raise PreflightError(
                f"{topic.name}-{partition} starts at {offset}, need 0: the log was truncated"
            )
    return {(topic.name, partition): offset for partition, offset in beginnings.items()}


async def from_end(log: Log, topic: Topic) -> dict[TopicPartition, int]:
    """Returns the position after the last record of each partition."""
    ends = await retry_with_timeout(partial(log.ends, topic.name), topic.name)
    return {(topic.name, partition): offset for partition, offset in ends.items()}
