"""Reads partitions of Kafka from offsets, through outages."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from trackside.contracts.envelope.topics import MAX_RECORD_BYTES
from trackside.contracts.wire.topic_rights import AclOperation
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import DeniedError, OffsetGoneError, TransientError
from trackside.eventlog.kafka.client_lifecycle import start_within, stopped
from trackside.eventlog.kafka.fetch_sessions import with_fetch_sessions
from trackside.eventlog.kafka.kafka_rights import denial
from trackside.eventlog.kafka.kafka_security import client_options
from trackside.eventlog.keys.encryption import Decryption, decrypt_or_wait
from trackside.eventlog.log import Entry
from trackside.eventlog.log import TopicPartition as Partition
from trackside.eventlog.settings.kafka_settings import KafkaSettings

log = structlog.get_logger("trackside.eventlog")

STUCK_S = 5.0
"""How long a reader may get no records, in s, while the log grows, before its consumer is rebuilt."""
LONG_POLL_MS = 4_000
"""How long the broker holds a fetch back while there is nothing to return, in ms. Records end it at once.

What else is asked on the connection of the consumer waits for it.
"""
LOOK_AGAIN_MS = 2_000
"""How often the client looks at all partitions though nothing has woken it, in ms: all that matters does."""
READ_FIRST_S = 60.0
"""How long no fetch is sent to a broker while records of its last one are unread, in s.

The client would send one after 0.1 s, without the partitions of these records. Once they are read, the next
ones of these partitions would wait until that fetch ends, which takes up to LONG_POLL_MS.
"""
AskForOffsets = Callable[[Collection[str], str], Awaitable[dict[Partition, int]]]


class KafkaReader:
    """Reads assigned partitions; rebuilds its consumer when that is broken or stuck."""

    def __init__(
        self,
        offsets: AskForOffsets,
        kafka: KafkaSettings,
        client_id: str,
        positions: dict[Partition, int],
        gather_s: float,
        waits_for_rights: bool = False,
        decryption: Decryption | None = None,
    ) -> None:
        self._offsets = offsets
        self._kafka = kafka
        self._client_id = client_id
        self._positions = positions
        self._waits_for_rights = waits_for_rights
        self._gather_ms = int(gather_s * 1000)
        self._consumer: AIOKafkaConsumer | None = None
        self._changed = False
        self._paused: frozenset[str] = frozenset()
        self._progress_s = monotonic_s()
        self._last_ends: dict[Partition, int] = {}
        self._decryption = decryption
        self._undecrypted: list[Entry] = []
        self.on_closed: Callable[[KafkaReader], None] = lambda _: None

    def assign(self, starts: Mapping[Partition, int]) -> None:
        """Adds partitions to read, from the next `read` on."""
        self._positions.update(starts)
        self._changed = True

    def pause(self, topics: Collection[str]) -> None:
        """Reads no records of these topics, from the next `read` on."""
        if self._paused != frozenset(topics):
            self._paused = frozenset(topics)
            if self._consumer is not None and not self._changed:
                self._pause(self._consumer)

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        """Returns the next records, or an empty list after `max_wait_s` seconds, also during an outage.

        Raises DeniedError, see `KafkaLog`.
        """
        if self._undecrypted:
            return await self._decrypted(max_wait_s)
        try:
            consumer = await self._ready(max_wait_s)
            if consumer is None:
                return []
            batches = await consumer.getmany(timeout_ms=int(max_wait_s * 1000), max_records=max_records)
        except KafkaError as error:
            _raise_if_gone(error)
            await self._rebuild()
            await self._say_broken(error, max_wait_s)
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
        self._undecrypted = found
        return await self._decrypted(max_wait_s)

    async def _decrypted(self, max_wait_s: float) -> list[Entry]:
        """Returns the records read last once they are decrypted; none while the keys can't be read."""
        decryption = self._decryption
        if decryption is not None and not await decrypt_or_wait(decryption, self._undecrypted, max_wait_s):
            return []
        found, self._undecrypted = self._undecrypted, []
        return found

    async def close(self) -> None:
        """Ends the reader."""
        self.on_closed(self)
        await self._rebuild()

    async def _ready(self, max_wait_s: float) -> AIOKafkaConsumer | None:
        if self._changed:  # on the same connection, the first fetch would wait for the one in flight
            await self._rebuild()
        if self._consumer is None:
            try:
                consumer = self._make()
                await start_within(consumer, max(max_wait_s, 1.0))
            except (KafkaError, OSError, TimeoutError, TransientError):
                await asyncio.sleep(min(max_wait_s, 0.1))
                return None
            with_fetch_sessions(consumer)
            consumer._fetcher._prefetch_backoff = READ_FIRST_S
            self._consumer, self._changed = consumer, False
            self._progress_s = monotonic_s()
            self._assign(consumer)
        return self._consumer

    def _make(self) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            **client_options(self._kafka),
            client_id=self._client_id,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",  # skips what a publisher has aborted
            max_partition_fetch_bytes=4 * MAX_RECORD_BYTES,
            fetch_min_bytes=MAX_RECORD_BYTES if self._gather_ms else 1,
            fetch_max_wait_ms=self._gather_ms or LONG_POLL_MS,
            consumer_timeout_ms=LOOK_AGAIN_MS,
        )

    def _assign(self, consumer: AIOKafkaConsumer) -> None:
        partitions = {TopicPartition(*tp): offset for tp, offset in self._positions.items()}
        consumer.assign(list(partitions))
        for tp, offset in partitions.items():
            consumer.seek(tp, offset)
        self._pause(consumer)

    def _pause(self, consumer: AIOKafkaConsumer) -> None:
        for tp in consumer.assignment():
            if tp.topic in self._paused:
                consumer.pause(tp)
            else:
                consumer.resume(tp)

    async def _say_broken(self, error: KafkaError, max_wait_s: float) -> None:
        topic = str(error.args[0]) if error.args else ""
        if reason := denial(self._kafka, error, topic, AclOperation.READ):
            if not self._waits_for_rights:
                raise DeniedError(reason)
            log.debug("the broker denies a read; still trying", reason=reason)  # `watch_rights` says so
            await asyncio.sleep(max_wait_s)
        else:
            log.warning("reader broken", error=str(error))

    async def _check_stuck(self) -> None:
        consumer = self._consumer
        if consumer is None or monotonic_s() - self._progress_s < STUCK_S:
            return
        self._progress_s = monotonic_s()
        topics = sorted({topic for topic, _ in self._positions})
        try:
            ends = await self._offsets(topics, "end_offsets")
            async with asyncio.timeout(STUCK_S):
                # The consumer's own, which also passes the markers of foreign transactions.
                read = [tp for tp in self._positions if tp[0] not in self._paused]
                positions = {tp: await consumer.position(TopicPartition(*tp)) for tp in read}
            if all(position >= ends.get(tp, position) for tp, position in positions.items()):
                return
            starts = await self._offsets(topics, "beginning_offsets")
        except (TransientError, KafkaError, OSError, TimeoutError) as error:
            log.warning("reader got no response; rebuilt", reason=str(error) or type(error).__name__)
            await self._rebuild()
            return
        for tp, position in positions.items():
            if position < starts.get(tp, 0):
                raise OffsetGoneError(f"{tp[0]}-{tp[1]} starts at {starts[tp]}, need {position}")
        # A record may have arrived since the last read; a stuck reader lacks one of the last check.
        if any(positions.get(tp, end) < end for tp, end in self._last_ends.items()):
            log.warning("reader stuck before the end of the log; rebuilt")
            await self._rebuild()
        self._last_ends = ends

    async def _rebuild(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stopped(consumer)


def _raise_if_gone(error: KafkaError) -> None:
    if type(error).__name__ == "OffsetOutOfRangeError":
        raise OffsetGoneError(f"the log no longer has the offsets requested: {error}") from error
