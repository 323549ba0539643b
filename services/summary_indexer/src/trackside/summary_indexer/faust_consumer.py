"""Consumes the metrics topic with a faust agent. The only module that imports faust.

Faust continues at the offset of its consumer group: every rebalance and every interrupted fetch ends in
`Consumer.seek_to_committed`. That method is replaced here by a seek to the positions stored with the rows.
(A seek in the signal `on_partitions_assigned` has no effect: faust seeks after it.) Acks are off, so the
offset of the group is never written either.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol

import faust
import structlog
from faust.auth import OAuthCredentials, SASLCredentials, SSLCredentials
from faust.transport.drivers.aiokafka import Consumer, Transport
from faust.types.auth import CredentialsT

from trackside.eventlog.errors import error_text
from trackside.eventlog.kafka.kafka_probe import ask_kafka
from trackside.eventlog.kafka.kafka_security import client_options, credentials_changed
from trackside.eventlog.log import Entry
from trackside.eventlog.settings.kafka_settings import KafkaSettings
from trackside.eventlog.settings.settings import StackSettings

log = structlog.get_logger("trackside.summary_indexer")

STOP_S = 2.0
"""How long faust may take to leave its group when the service ends."""
RETRY_S = 1.0
REQUEST_S = 30.0
"""How long a request to the broker, or a read of the stored positions, may take."""


class ConsumerStopped(Exception):
    """Faust's consumer has ended unexpectedly: the process must be restarted."""


class RecordSink(Protocol):
    """Accepts the records that the agent reads."""

    async def assign(self, partitions: set[int]) -> Mapping[int, int]:
        """Discards what is not written and returns the offset at which each partition continues."""
        ...

    async def accept(self, entry: Entry) -> None:
        """Accepts a record; waits while there is no room for it."""
        ...


async def run_consumer(settings: StackSettings, session_timeout_s: float, sink: RecordSink) -> None:
    """Passes the records of the metrics topic to `sink` until cancelled; raises ConsumerStopped."""
    for noisy in ("faust", "mode", __name__):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # While a broker is down it writes 20 lines a second, which fill a disk: `/ready` reports the outage.
    logging.getLogger("aiokafka.consumer").setLevel(logging.CRITICAL)
    while True:
        try:
            await _consume(settings, session_timeout_s, sink)
        except ConsumerStopped as error:
            if not isinstance(error.__cause__, TimeoutError):
                raise
            # A transaction, Postgres or a busy host took longer than faust waits: late is not broken.
            log.warning("reading again, as the positions were not there in time", reason=str(error))
        await _until_let_in(settings)


async def _consume(settings: StackSettings, session_timeout_s: float, sink: RecordSink) -> None:
    """Returns when the files with the credentials have changed: faust connects with those of its start."""
    app = _app(settings, session_timeout_s, sink)
    topic = app.topic(
        settings.topics.metrics.name,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
        acks=False,
    )

    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def pass_on(stream: Any) -> None:
        try:
            async for event in stream.events():
                await sink.accept(_entry(event.message))
        except Exception as error:
            # Faust would restart the agent after the record that failed.
            if not failed.done():
                failed.set_exception(error)
            raise

    app.agent(topic, name="metrics")(pass_on)
    changed = asyncio.create_task(credentials_changed(settings))
    running = asyncio.create_task(_run(app))
    try:
        await asyncio.wait({running, failed, changed}, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            failed.result()
        if not changed.done():
            running.result()
    finally:
        changed.cancel()
        running.cancel()
        failed.cancel()
        await _stop(app)


async def _until_let_in(settings: StackSettings) -> None:
    """Waits until the broker takes the new credentials: faust ends if it does not at its start."""
    while True:
        try:
            async with asyncio.timeout(REQUEST_S):
                await ask_kafka(settings)
            return
        except (OSError, EOFError, ValueError) as error:
            log.warning("waiting for the log", topic=settings.topics.metrics.name, reason=error_text(error))
            await asyncio.sleep(RETRY_S)


async def _run(app: Any) -> None:
    await app.start()
    await app.wait_until_stopped()
    raise ConsumerStopped(f"faust stopped reading: {app.crash_reason!r}") from app.crash_reason


def _app(settings: StackSettings, session_timeout_s: float, sink: RecordSink) -> Any:
    class StoredPositions(Consumer):  # type: ignore[misc]  # faust has no types here
        async def seek_to_committed(self) -> Mapping[Any, int]:
            assigned = {place.partition: place for place in self.assignment()}
            positions = await sink.assign(set(assigned))
            starts = {assigned[partition]: offset for partition, offset in positions.items()}
            await self.seek_wait(starts)
            return starts

    class PositionedTransport(Transport):  # type: ignore[misc]
        Consumer = StoredPositions

    class MetricsApp(faust.App):  # type: ignore[misc]
        def _new_transport(self) -> Any:
            return PositionedTransport(self.conf.broker_consumer, self)

        def _create_directories(self) -> None:
            """Creates no folders: there are no faust tables."""

    group = settings.topics.metrics_group
    return MetricsApp(
        group,
        broker=[f"kafka://{address.strip()}" for address in settings.kafka_bootstrap.split(",")],
        broker_client_id="summary-indexer",
        broker_credentials=_credentials(settings),
        broker_session_timeout=session_timeout_s,
        broker_heartbeat_interval=session_timeout_s / 3,
        broker_request_timeout=max(REQUEST_S, session_timeout_s),
        broker_rebalance_timeout=session_timeout_s,
        consumer_group_instance_id=f"{group}.{settings.instance}",
        value_serializer="raw",
        key_serializer="raw",
        store="memory://",
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        stream_wait_empty=False,
        # Records of 4,000 points: its own 4,096 would be half a GB.
        stream_buffer_maxsize=64,
    )


def _credentials(kafka: KafkaSettings) -> CredentialsT | None:
    """Returns in faust's words what every other client of Kafka is given."""
    options = client_options(kafka)
    tls = options.get("ssl_context")
    if "sasl_oauth_token_provider" in options:
        return OAuthCredentials(oauth_cb=options["sasl_oauth_token_provider"], ssl_context=tls)
    if "sasl_mechanism" in options:
        return SASLCredentials(
            username=options["sasl_plain_username"],
            password=options["sasl_plain_password"],
            ssl_context=tls,
            mechanism=options["sasl_mechanism"],
        )
    return None if tls is None else SSLCredentials(tls)


def _entry(message: Any) -> Entry:
    return Entry(
        message.topic,
        message.partition,
        message.offset,
        round((message.timestamp or 0) * 1000),
        message.key,
        message.value,
        message.headers or (),
    )


async def _stop(app: Any) -> None:
    try:
        async with asyncio.timeout(STOP_S):
            await app.stop()
    except TimeoutError:
        app.log.warning(
            "faust did not stop in time; Kafka reassigns its partitions after the session timeout"
        )
