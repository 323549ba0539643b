"""The log on Kafka.

The decisions behind this client are in docs/adr: no transactions, no consumer groups, one batch per
decision, and a producer is dropped after any error with an unknown outcome.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, MessageSizeTooLargeError, TopicAlreadyExistsError, for_code
from aiokafka.protocol.metadata import MetadataRequest

from trackside.contracts.envelope.topics import MAX_BATCH_BYTES, MAX_RECORD_BYTES, Topic
from trackside.contracts.wire.topic_rights import AclOperation
from trackside.eventlog.errors import AnotherLogError, TooLargeError, TransientError, error_text
from trackside.eventlog.kafka.client_lifecycle import start_client, start_within, stopped
from trackside.eventlog.kafka.kafka_metadata import describe_cluster, describe_topics, existing_topics
from trackside.eventlog.kafka.kafka_probe import reason_of
from trackside.eventlog.kafka.kafka_reader import KafkaReader
from trackside.eventlog.kafka.kafka_rights import raise_if_denied
from trackside.eventlog.kafka.kafka_security import client_options
from trackside.eventlog.keys.encryption import Decryption, StreamKeys
from trackside.eventlog.log import Appended, Outgoing
from trackside.eventlog.log import TopicPartition as Partition
from trackside.eventlog.preflight import check_partitions, check_settings
from trackside.eventlog.settings.kafka_settings import KafkaSettings, kafka_settings

log = structlog.get_logger("trackside.eventlog")

ANSWER_S = 5.0
"""How long an append waits for its acknowledgement, in s, before its outcome counts as unknown."""
REPLICAS = 3
"""Copies of a new topic, where the cluster has as many brokers."""
_RECORD_OVERHEAD = 16_384
_MOST_NAMED = 5
"""How many topics an error names; a worker reads one for each of its devices."""


class KafkaLog:
    """A connection to a Kafka cluster; connects when it is first used, and again after any outage.

    At an address alone it connects as the variables of the environment say. `waits_for_rights`: a read that
    the broker denies is tried again, as in an outage; else it raises DeniedError. What it reads of encrypted
    streams is decrypted with their `keys`, if it has any.
    """

    def __init__(
        self,
        kafka: KafkaSettings | str,
        client_id: str,
        *,
        waits_for_rights: bool = False,
        keys: StreamKeys | None = None,
    ) -> None:
        """Raises InvalidSettingsError."""
        self.decryption = None if keys is None else Decryption(keys)
        self._kafka = kafka_settings(kafka)
        self._bootstrap = self._kafka.kafka_bootstrap
        self._client_id = client_id
        self._waits_for_rights = waits_for_rights
        self._producer: AIOKafkaProducer | None = None
        self._offset_client: AIOKafkaConsumer | None = None
        self._lock = asyncio.Lock()
        self._readers: set[KafkaReader] = set()
        self._disposals: set[asyncio.Task[None]] = set()
        self._cluster = ""
        self._kept: set[str] = set()
        self._written: dict[Partition, int] = {}
        """The offset after our last record in each partition of a topic whose records are kept."""

    async def __aenter__(self) -> "KafkaLog":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch atomically, as one produce request with one record batch."""
        producer = await self._connected(topic)
        builder = producer.create_batch()
        for record in batch:
            added = builder.append(
                key=record.key, value=record.value, timestamp=record.time_ms, headers=list(record.headers)
            )
            if added is None:
                raise TooLargeError(
                    f"a batch of {len(batch)} records for {topic} is over {MAX_BATCH_BYTES} bytes"
                )
        sending = producer.send_batch(builder, topic, partition=partition)
        appended = await self._acknowledged(producer, topic, sending)
        if topic in self._kept:
            self._written[topic, partition] = appended.offset + len(batch)
        return appended

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends one record, in a request shared with concurrent callers."""
        producer = await self._connected(topic)
        sent = producer.send(
            topic, record.value, key=record.key, partition=partition, headers=list(record.headers)
        )
        return await self._acknowledged(producer, topic, sent)

    def reader(self, starts: Mapping[Partition, int], gather_s: float = 0.0) -> "KafkaReader":
        """Opens a reader at the offsets given; the broker may hold records back for `gather_s` seconds."""
        reader = KafkaReader(
            self.offsets,
            self._kafka,
            self._client_id,
            dict(starts),
            gather_s,
            self._waits_for_rights,
            self.decryption,
        )
        self._readers.add(reader)
        reader.on_closed = self._readers.discard
        return reader

    async def ends(self, topic: str) -> dict[int, int]:
        """Requests the next offset of each partition."""
        return (await self.ends_of([topic]))[topic]

    async def ends_of(self, topics: Collection[str]) -> dict[str, dict[int, int]]:
        """Requests the next offset of each partition of several topics."""
        found: dict[str, dict[int, int]] = {topic: {} for topic in topics}
        for (topic, partition), offset in (await self.offsets(topics, "end_offsets")).items():
            found[topic][partition] = offset
        return found

    async def beginnings(self, topic: str) -> dict[int, int]:
        """Requests the first offset of each partition."""
        found = await self.offsets([topic], "beginning_offsets")
        return {partition: offset for (_, partition), offset in found.items()}

    async def ensure(self, topics: Sequence[Topic]) -> None:
        """Creates the topics that don't exist, and waits until the broker names a leader for each."""
        try:
            async with self._admin() as admin:
                known = await existing_topics(admin, [topic.name for topic in topics])
                copies = min(REPLICAS, len((await describe_cluster(admin))["brokers"]))
                for topic in [each for each in topics if each.name not in known]:
                    new = NewTopic(topic.name, topic.partitions, copies, topic_configs=topic.created_settings)
                    errors = (await admin.create_topics([new])).topic_errors
                    _raise_for(self._kafka, topic.name, errors)
                await self._wait_for_leaders(admin, topics)
        except (KafkaError, OSError) as error:
            reason = await reason_of(error, self._kafka)
            raise TransientError(f"creating topics at {self._bootstrap}: {reason}") from error

    async def preflight(self, topics: Sequence[Topic]) -> None:
        """Checks topics; raises PreflightError, or TransientError if the broker doesn't respond."""
        async with self._asked(f"topics like {topics[0].name if topics else 'none'}") as admin:
            described = await describe_topics(admin, [topic.name for topic in topics])
            found = {entry["topic"]: len(entry["partitions"]) for entry in described}
            for topic in topics:
                check_partitions(topic, found.get(topic.name))
            settings = await self._settings(admin, topics)
            for topic in topics:
                check_settings(topic, settings.get(topic.name, {}))
        self._kept |= {topic.name for topic in topics if topic.retention_ms < 0}

    async def cluster_id(self) -> str:
        """Requests the id of the cluster; raises TransientError."""
        async with self._asked("its cluster") as admin:
            return str((await describe_cluster(admin))["cluster_id"])

    async def close(self) -> None:
        """Closes all connections, waiting at most a second for requests in flight."""
        for reader in list(self._readers):
            await reader.close()
        if self.decryption is not None:
            self.decryption.close()
        for client in (self._producer, self._offset_client):
            if client is not None:
                await stopped(client)
        self._producer = self._offset_client = None
        await asyncio.gather(*self._disposals, return_exceptions=True)

    async def _connected(self, topic: str) -> AIOKafkaProducer:
        if self._producer is None:
            await self._check_ends(topic)
        async with self._lock:
            if self._producer is None:
                producer = AIOKafkaProducer(
                    **client_options(self._kafka),
                    client_id=self._client_id,
                    acks="all",
                    enable_idempotence=True,
                    linger_ms=0,
                    max_batch_size=MAX_BATCH_BYTES,
                    max_request_size=MAX_RECORD_BYTES + _RECORD_OVERHEAD,
                    request_timeout_ms=int(ANSWER_S * 1000),
                )
                await self._started(producer, topic)
                self._producer = producer
            return self._producer

    async def _started(self, client: AIOKafkaProducer | AIOKafkaConsumer, topic: str) -> None:
        try:
            await start_within(client, ANSWER_S, partial(self._check_cluster, client))
        except (KafkaError, OSError, TimeoutError) as error:
            # A user who may write no topic at all gets no idempotent producer either.
            raise_if_denied(self._kafka, error, topic, AclOperation.WRITE)
            reason = await reason_of(error, self._kafka)
            raise TransientError(f"no Kafka at {self._bootstrap}: {reason}") from error

    async def _check_cluster(self, client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
        """Raises AnotherLogError if the address leads to another cluster than it did when it was first used.

        Also if that has a restored copy of the log: what this process knows is not of it.
        """
        connection = client.client if isinstance(client, AIOKafkaProducer) else client._client
        answer = await connection.send(connection.get_random_node(), MetadataRequest([]))
        found = str(getattr(answer, "cluster_id", "") or "")
        if found and self._cluster and found != self._cluster:
            raise AnotherLogError(
                f"Kafka at {self._bootstrap} is the cluster {found}, and was {self._cluster} when this "
                f"process began: what it knows belongs to {self._cluster}; start it again if {found} is right"
            )
        self._cluster = found or self._cluster

    async def _check_ends(self, topic: str) -> None:
        """Raises AnotherLogError if a topic ends before what this process has written to it.

        Clusters may share an id, such as those that one file of a deployment starts.
        """
        written = {place: end for place, end in self._written.items() if place[0] == topic}
        found = await self.offsets([topic], "end_offsets") if written else {}
        for place, end in written.items():
            if found.get(place, 0) < end:
                raise AnotherLogError(
                    f"{place[0]}-{place[1]} at {self._bootstrap} ends at {found.get(place, 0)}, but this "
                    f"process has written up to {end}: it is another log, or has lost records; start it again"
                )

    async def _acknowledged(self, producer: AIOKafkaProducer, topic: str, sending: Any) -> Appended:
        try:
            async with asyncio.timeout(ANSWER_S):
                future = await sending
                sent = await asyncio.shield(future)
        except MessageSizeTooLargeError as error:
            raise TooLargeError(str(error)) from error
        except (KafkaError, OSError, TimeoutError) as error:
            self._dispose(producer)
            raise_if_denied(self._kafka, error, topic, AclOperation.WRITE)
            raise TransientError(f"no acknowledgement: {error_text(error)}") from error
        return Appended(sent.offset, sent.timestamp)

    def _dispose(self, producer: AIOKafkaProducer) -> None:
        """Drops a producer whose last batch has an unknown outcome, so that it can't resend it later."""
        if self._producer is not producer:
            return
        self._producer = None
        task = asyncio.create_task(stopped(producer))
        self._disposals.add(task)
        task.add_done_callback(self._disposals.discard)

    async def offsets(self, topics: Collection[str], which: str) -> dict[Partition, int]:
        """Requests `end_offsets` or `beginning_offsets` of all partitions of topics, in one request.

        A request that waits for another one has all of its time after that.
        """
        async with self._lock:
            if self._offset_client is None:
                consumer = AIOKafkaConsumer(**client_options(self._kafka), client_id=self._client_id)
                await self._started(consumer, next(iter(topics), ""))
                self._offset_client = consumer
            asked = self._offset_client
            try:
                async with asyncio.timeout(ANSWER_S):
                    found = await _offsets(asked, topics, which)
            except (KafkaError, OSError, TimeoutError) as error:
                self._offset_client = None
                await stopped(asked)
                raise_if_denied(self._kafka, error, next(iter(topics)), AclOperation.DESCRIBE)
                about = ", ".join(topics) if len(topics) <= _MOST_NAMED else f"{len(topics)} topics"
                raise TransientError(
                    f"offsets of {about} at {self._bootstrap}: {error_text(error)}"
                ) from error
        return {(tp.topic, tp.partition): offset for tp, offset in found.items()}

    @asynccontextmanager
    async def _asked(self, about: str) -> AsyncIterator[AIOKafkaAdminClient]:
        """Yields a client for requests; raises TransientError if they aren't answered within 5 s."""
        try:
            async with asyncio.timeout(ANSWER_S), self._admin() as admin:
                yield admin
        except (KafkaError, OSError, TimeoutError) as error:
            raise TransientError(
                f"no answer from Kafka at {self._bootstrap} in {ANSWER_S:.0f} s about {about}: "
                f"{await reason_of(error, self._kafka)}; check TRACKSIDE_KAFKA_BOOTSTRAP"
            ) from error

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(
            **client_options(self._kafka), client_id=self._client_id, request_timeout_ms=10_000
        )
        try:
            await start_client(admin)
            yield admin
        finally:
            await admin.close()

    async def _settings(
        self, admin: AIOKafkaAdminClient, topics: Sequence[Topic]
    ) -> dict[str, dict[str, str]]:
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic.name) for topic in topics]
        found: dict[str, dict[str, str]] = {}
        for response in await admin.describe_configs(resources):
            for code, _text, _kind, name, entries in response.resources:
                raise_if_denied(self._kafka, for_code(code)(), name, AclOperation.DESCRIBE_CONFIGS)
                found[name] = {entry[0]: entry[1] for entry in entries}
        return found

    async def _wait_for_leaders(self, admin: AIOKafkaAdminClient, topics: Sequence[Topic]) -> None:
        names = {topic.name for topic in topics}
        async with asyncio.timeout(60):
            while True:
                found = await describe_topics(admin, names)
                led = len(found) == len(names) and all(
                    entry["error_code"] == 0 and all(part["leader"] >= 0 for part in entry["partitions"])
                    for entry in found
                )
                if led:
                    return
                await asyncio.sleep(0.05)


async def _offsets(
    consumer: AIOKafkaConsumer, topics: Collection[str], which: str
) -> dict[TopicPartition, int]:
    client = consumer._client
    client._topics.update(topics)  # so that one request asks about all of them
    requested = []
    for topic in topics:
        await client._wait_on_metadata(topic)
        partitions = sorted(consumer.partitions_for_topic(topic) or ())
        requested += [TopicPartition(topic, partition) for partition in partitions]
    found: dict[TopicPartition, int] = await getattr(consumer, which)(requested)
    return found


def _raise_for(kafka: KafkaSettings, name: str, topic_errors: Sequence[Sequence[Any]]) -> None:
    for entry in topic_errors:
        code, text = entry[1], entry[2] if len(entry) > 2 else ""
        if code and code != TopicAlreadyExistsError.errno:
            raise_if_denied(kafka, for_code(code)(text), name, AclOperation.CREATE)
            raise TransientError(f"topic {name} could not be created: error {code} {text}")
