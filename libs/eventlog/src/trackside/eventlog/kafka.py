"""The log on Kafka. The only module that uses aiokafka.

The decisions behind this client are in docs/adr: no transactions, no consumer groups, one batch per
decision, and a producer is dropped after any error with an unknown outcome.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, TopicAlreadyExistsError

from trackside.contracts.topics import MAX_BATCH_BYTES, MAX_RECORD_BYTES, Topic
from trackside.eventlog.client_lifecycle import cancel_tasks, start_client
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import OffsetGoneError, TooLargeError, TransientError, error_text
from trackside.eventlog.log import Appended, Entry, Outgoing
from trackside.eventlog.log import TopicPartition as Partition
from trackside.eventlog.preflight import check_partitions, check_settings

log = structlog.get_logger("trackside.eventlog")

ANSWER_S = 5.0
"""How long an append waits for its acknowledgement, in s, before its outcome counts as unknown."""
STUCK_S = 5.0
"""How long a reader may get no records, in s, while the log grows, before its consumer is rebuilt."""
LONG_POLL_MS = 500
STOP_S = 1.0
"""How long a client may take to stop, in s, before it is dropped."""
REPLICAS = 3
"""Copies of a new topic, where the cluster has as many brokers."""
_RECORD_OVERHEAD = 16_384


class KafkaLog:
    """A connection to a Kafka cluster; connects when it is first used, and again after any outage."""

    def __init__(self, bootstrap: str, client_id: str) -> None:
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._producer: AIOKafkaProducer | None = None
        self._offset_client: AIOKafkaConsumer | None = None
        self._lock = asyncio.Lock()
        self._readers: set[KafkaReader] = set()
        self._disposals: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "KafkaLog":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch atomically, as one produce request with one record batch."""
        producer = await self._connected()
        builder = producer.create_batch()
        for record in batch:
            added = builder.append(
                key=record.key, value=record.value, timestamp=record.time_ms, headers=list(record.headers)
            )
            if added is None:
                raise TooLargeError(
                    f"a batch of {len(batch)} records for {topic} is over {MAX_BATCH_BYTES} bytes"
                )
        return await self._acknowledged(producer, producer.send_batch(builder, topic, partition=partition))

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends one record, in a request shared with concurrent callers."""
        producer = await self._connected()
        sent = producer.send(
            topic, record.value, key=record.key, partition=partition, headers=list(record.headers)
        )
        return await self._acknowledged(producer, sent)

    def reader(self, starts: Mapping[Partition, int], gather_s: float = 0.0) -> "KafkaReader":
        """Opens a reader at the offsets given; the broker may hold records back for `gather_s` seconds."""
        reader = KafkaReader(self._bootstrap, self._client_id, dict(starts), gather_s)
        self._readers.add(reader)
        return reader

    async def ends(self, topic: str) -> dict[int, int]:
        """Requests the next offset of each partition."""
        return await self._offsets(topic, "end_offsets")

    async def beginnings(self, topic: str) -> dict[int, int]:
        """Requests the first offset of each partition."""
        return await self._offsets(topic, "beginning_offsets")

    async def ensure(self, topics: Sequence[Topic]) -> None:
        """Creates the topics that don't exist, and waits until the broker names a leader for each."""
        try:
            async with self._admin() as admin:
                known = set(await admin.list_topics())
                copies = min(REPLICAS, len((await admin.describe_cluster())["brokers"]))
                for topic in [each for each in topics if each.name not in known]:
                    new = NewTopic(topic.name, topic.partitions, copies, topic_configs=topic.settings)
                    _raise_for(topic.name, (await admin.create_topics([new])).topic_errors)
                await self._wait_for_leaders(admin, topics)
        except (KafkaError, OSError) as error:
            raise TransientError(f"creating topics at {self._bootstrap}: {error_text(error)}") from error

    async def preflight(self, topics: Sequence[Topic]) -> None:
        """Checks topics; raises PreflightError, or TransientError if the broker doesn't respond."""
        async with self._asked(f"topics like {topics[0].name if topics else 'none'}") as admin:
            found = {entry["topic"]: len(entry["partitions"]) for entry in await admin.describe_topics()}
            for topic in topics:
                check_partitions(topic, found.get(topic.name))
            settings = await _settings(admin, topics)
            for topic in topics:
                check_settings(topic, settings.get(topic.name, {}))

    async def cluster_id(self) -> str:
        """Requests the id of the cluster; raises TransientError."""
        async with self._asked("its cluster") as admin:
            return str((await admin.describe_cluster())["cluster_id"])

    async def close(self) -> None:
        """Closes all connections, waiting at most a second for requests in flight."""
        for reader in list(self._readers):
            await reader.close()
        for client in (self._producer, self._offset_client):
            if client is not None:
                await _stopped(client)
        self._producer = self._offset_client = None
        await asyncio.gather(*self._disposals, return_exceptions=True)

    async def _connected(self) -> AIOKafkaProducer:
        async with self._lock:
            if self._producer is None:
                producer = AIOKafkaProducer(
                    bootstrap_servers=self._bootstrap,
                    client_id=self._client_id,
                    acks="all",
                    enable_idempotence=True,
                    linger_ms=0,
                    max_batch_size=MAX_BATCH_BYTES,
                    max_request_size=MAX_RECORD_BYTES + _RECORD_OVERHEAD,
                    request_timeout_ms=int(ANSWER_S * 1000),
                )
                await self._started(producer)
                self._producer = producer
            return self._producer

    async def _started(self, client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
        try:
            await _start(client, ANSWER_S)
        except (KafkaError, OSError, TimeoutError) as error:
            raise TransientError(f"no Kafka at {self._bootstrap}: {error_text(error)}") from error

    async def _acknowledged(self, producer: AIOKafkaProducer, sending: Any) -> Appended:
        try:
            async with asyncio.timeout(ANSWER_S):
                future = await sending
                sent = await asyncio.shield(future)
        except MessageSizeTooLargeError as error:
            raise TooLargeError(str(error)) from error
        except (KafkaError, OSError, TimeoutError) as error:
            self._dispose(producer)
            raise TransientError(f"no acknowledgement: {error_text(error)}") from error
        return Appended(sent.offset, sent.timestamp)

    def _dispose(self, producer: AIOKafkaProducer) -> None:
        """Drops a producer whose last batch has an unknown outcome, so that it can't resend it later."""
        if self._producer is not producer:
            return
        self._producer = None
        task = asyncio.create_task(_stopped(producer))
        self._disposals.add(task)
        task.add_done_callback(self._disposals.discard)

    async def _offsets(self, topic: str, which: str) -> dict[int, int]:
        try:
            async with asyncio.timeout(ANSWER_S), self._lock:
                if self._offset_client is None:
                    consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, client_id=self._client_id)
                    await self._started(consumer)
                    self._offset_client = consumer
                await self._offset_client._client._wait_on_metadata(topic)
                partitions = sorted(self._offset_client.partitions_for_topic(topic) or ())
                requested = [TopicPartition(topic, partition) for partition in partitions]
                found = await getattr(self._offset_client, which)(requested)
        except (KafkaError, OSError, TimeoutError) as error:
            broken, self._offset_client = self._offset_client, None
            if broken is not None:
                await _stopped(broken)
            raise TransientError(f"offsets of {topic} at {self._bootstrap}: {error_text(error)}") from error
        return {tp.partition: offset for tp, offset in found.items()}

    @asynccontextmanager
    async def _asked(self, about: str) -> AsyncIterator[AIOKafkaAdminClient]:
        """Yields a client for requests; raises TransientError if they aren't answered within 5 s."""
        try:
            async with asyncio.timeout(ANSWER_S), self._admin() as admin:
                yield admin
        except (KafkaError, OSError, TimeoutError) as error:
            raise TransientError(
                f"no answer from Kafka at {self._bootstrap} in {ANSWER_S:.0f} s about {about}: "
                f"{error_text(error)}; check TRACKSIDE_KAFKA_BOOTSTRAP"
            ) from error

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(
            bootstrap_servers=self._bootstrap, client_id=self._client_id, request_timeout_ms=10_000
        )
        try:
            await start_client(admin)
            yield admin
        finally:
            await admin.close()

    async def _wait_for_leaders(self, admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> None:
        names = [topic.name for topic in topics]
        async with asyncio.timeout(60):
            while True:
                found = await admin.describe_topics(names)
                led = all(
                    entry["error_code"] == 0 and all(part["leader"] >= 0 for part in entry["partitions"])
                    for entry in found
                )
                if led:
                    return
                await asyncio.sleep(0.05)


class KafkaReader:
    """Reads assigned partitions; rebuilds its consumer when that is broken or stuck."""

    def __init__(
        self, bootstrap: str, client_id: str, positions: dict[Partition, int], gather_s: float
    ) -> None:
        self._bootstrap = bootstrap
        self._client_id = client_id
        self._positions = positions
        self._gather_ms = int(gather_s * 1000)
        self._consumer: AIOKafkaConsumer | None = None
        self._changed = True
        self._progress_s = monotonic_s()
        self._last_ends: dict[TopicPartition, int] = {}

    def assign(self, starts: Mapping[Partition, int]) -> None:
        """Adds partitions to read, from the next `read` on."""
        self._positions.update(starts)
        self._changed = True

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        """Returns the next records, or an empty list after `max_wait_s` seconds, also during an outage."""
        try:
            consumer = await self._ready(max_wait_s)
            if consumer is None:
                return []
            batches = await consumer.getmany(timeout_ms=int(max_wait_s * 1000), max_records=max_records)
        except KafkaError as error:
            _raise_if_gone(error)
            log.warning("reader broken", error=str(error))
            await self._rebuild()
            return []
        if not batches:
            await self._check_stuck()
            return []
        self._progress_s = monotonic_s()
        self._last_ends = {}
        found: list[Entry] = []
        for tp, messages in batches.items():
            found += [
                Entry(tp.topic, tp.partition, at.offset, at.timestamp, at.key, at.value, at.headers)
                for at in messages
            ]
            self._positions[tp.topic, tp.partition] = messages[-1].offset + 1
        return found

    async def close(self) -> None:
        """Ends the reader."""
        await self._rebuild()

    async def _ready(self, max_wait_s: float) -> AIOKafkaConsumer | None:
        if self._consumer is None:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=self._bootstrap,
                client_id=self._client_id,
                group_id=None,
                enable_auto_commit=False,
                auto_offset_reset="none",
                isolation_level="read_committed",  # skips what a publisher has aborted
                max_partition_fetch_bytes=4 * MAX_RECORD_BYTES,
                fetch_min_bytes=MAX_RECORD_BYTES if self._gather_ms else 1,
                fetch_max_wait_ms=self._gather_ms or LONG_POLL_MS,
            )
            try:
                await _start(consumer, max(max_wait_s, 1.0))
            except (KafkaError, OSError, TimeoutError):
                await asyncio.sleep(min(max_wait_s, 0.1))
                return None
            self._consumer, self._changed = consumer, True
            self._progress_s = monotonic_s()
        if self._changed:
            self._assign(self._consumer)
        return self._consumer

    def _assign(self, consumer: AIOKafkaConsumer) -> None:
        partitions = {TopicPartition(*tp): offset for tp, offset in self._positions.items()}
        consumer.assign(list(partitions))
        for tp, offset in partitions.items():
            consumer.seek(tp, offset)
        self._changed = False

    async def _check_stuck(self) -> None:
        consumer = self._consumer
        if consumer is None or monotonic_s() - self._progress_s < STUCK_S:
            return
        self._progress_s = monotonic_s()
        partitions = [TopicPartition(*tp) for tp in self._positions]
        try:
            async with asyncio.timeout(ANSWER_S):
                ends = await consumer.end_offsets(partitions)
                starts = await consumer.beginning_offsets(partitions)
                # The consumer's own, which also passes the markers of foreign transactions.
                positions = {tp: await consumer.position(tp) for tp in partitions}
        except (KafkaError, OSError, TimeoutError) as error:
            log.warning("reader got no response; rebuilt", reason=str(error) or type(error).__name__)
            await self._rebuild()
            return
        for tp, start in starts.items():
            if positions[tp] < start:
                raise OffsetGoneError(f"{tp.topic}-{tp.partition} starts at {start}, need {positions[tp]}")
        # A record may have arrived since the last read; a stuck reader lacks one of the last check.
        if any(positions[tp] < end for tp, end in self._last_ends.items()):
            log.warning("reader stuck before the end of the log; rebuilt")
            await self._rebuild()
        self._last_ends = ends

    async def _rebuild(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await _stopped(consumer)


def _raise_if_gone(error: KafkaError) -> None:
    if type(error).__name__ == "OffsetOutOfRangeError":
        raise OffsetGoneError(f"the log no longer has the offsets requested: {error}") from error


async def _start(client: AIOKafkaProducer | AIOKafkaConsumer, within_s: float) -> None:
    """Starts a client; if that fails or takes longer than `within_s` seconds, closes its connections."""
    try:
        async with asyncio.timeout(within_s):
            await start_client(client)
    except BaseException:
        await _stopped(client)
        raise


async def _stopped(client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
    """Stops a client within a second or two, whatever state it is in.

    In a task of its own: a consumer whose fetch waits for a retry raises that fetch's cancellation from
    `stop`, where it looks like our own. The rest is ended here: a sender would retry without limit.
    """
    stopping = asyncio.create_task(_stop(client))
    await asyncio.wait({stopping}, timeout=STOP_S)
    if stopping.done() and not stopping.cancelled() and stopping.exception() is None:
        return
    log.debug("a Kafka client was dropped while it was busy")
    if isinstance(client, AIOKafkaProducer):
        client._closed, connection, left = True, client.client, {client._sender.sender_task}
    else:
        connection, left = client._client, set(client._fetcher._pending_tasks if client._fetcher else ())
    closing = asyncio.create_task(connection.close())
    ending = {stopping, *(task for task in left if task is not None)}
    for task in ending:
        task.cancel()
    await asyncio.wait({closing}, timeout=10 * STOP_S)  # takes one iteration of the event loop
    await cancel_tasks({closing, *ending}, STOP_S)


async def _stop(client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
    if isinstance(client, AIOKafkaProducer):  # its own `stop` flushes in a task that can't be cancelled
        await client._message_accumulator.close()
    await client.stop()


def _raise_for(name: str, topic_errors: Sequence[Sequence[Any]]) -> None:
    for entry in topic_errors:
        code, text = entry[1], entry[2] if len(entry) > 2 else ""
        if code and code != TopicAlreadyExistsError.errno:
            raise TransientError(f"topic {name} could not be created: error {code} {text}")


async def _settings(admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> dict[str, dict[str, str]]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics]
    return {
        name: {entry[0]: entry[1] for entry in entries}
        for response in await admin.describe_configs(resources)
        for _code, _text, _kind, name, entries in response.resources
    }
