"""The log in memory: the same guarantees as Kafka's, for tests and simulations."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from trackside.contracts.envelope.topics import MAX_RECORD_BYTES, Topic
from trackside.eventlog.clock import now_ms
from trackside.eventlog.errors import OffsetGoneError, TooLargeError, TransientError
from trackside.eventlog.log import Appended, Entry, Outgoing, TopicPartition
from trackside.eventlog.preflight import check_partitions, check_settings


class MemoryLog:
    """Topics as lists of entries; `clock` returns append times in ms since 1970."""

    def __init__(self, clock: Callable[[], int] = now_ms) -> None:
        self._topics: dict[str, Topic] = {}
        self._entries: dict[TopicPartition, list[Entry]] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._clock = clock

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch atomically."""
        entries = self._partition(topic, partition)
        limit = int(self._topics[topic].settings["max.message.bytes"])
        size = sum(len(record.key or b"") + len(record.value or b"") for record in batch)
        if size > min(limit, MAX_RECORD_BYTES):
            raise TooLargeError(f"{size} > {limit} bytes for {topic}")
        first, time = len(entries), self._clock()
        for at, record in enumerate(batch):
            headers = list(record.headers)
            entries.append(Entry(topic, partition, first + at, time, record.key, record.value, headers))
        for reader in self._waiting:
            if not reader.done():
                reader.set_result(None)
        await asyncio.sleep(0)
        return Appended(first, time)

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends one record."""
        return await self.append(topic, partition, [record])

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> "MemoryReader":
        """Opens a reader at the offsets given."""
        return MemoryReader(self, dict(starts))

    async def ends(self, topic: str) -> dict[int, int]:
        """Returns the next offset of each partition."""
        count = self._known(topic).partitions
        return {partition: len(self._partition(topic, partition)) for partition in range(count)}

    async def ends_of(self, topics: Collection[str]) -> dict[str, dict[int, int]]:
        """Returns the same of several topics, by topic."""
        return {topic: await self.ends(topic) for topic in topics}

    async def beginnings(self, topic: str) -> dict[int, int]:
        """Returns the first offset of each partition, always 0."""
        return dict.fromkeys(range(self._known(topic).partitions), 0)

    async def ensure(self, topics: Sequence[Topic]) -> None:
        """Creates the topics that don't exist."""
        for topic in topics:
            self._topics.setdefault(topic.name, topic)

    async def preflight(self, topics: Sequence[Topic]) -> None:
        """Checks that the topics are there with the settings they need."""
        for topic in topics:
            found = self._topics.get(topic.name)
            check_partitions(topic, None if found is None else found.partitions)
            check_settings(topic, {} if found is None else found.settings)

    async def cluster_id(self) -> str:
        """Returns `memory`."""
        return "memory"

    async def close(self) -> None:
        """Does nothing: memory has no connections."""

    async def _next_append(self) -> None:
        """Waits for an append, without a lock: it could stay locked when its waiter is cancelled."""
        appended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(appended)
        try:
            await appended
        finally:
            self._waiting.discard(appended)

    def _known(self, topic: str) -> Topic:
        if topic not in self._topics:
            raise TransientError(f"topic {topic} does not exist")
        return self._topics[topic]

    def _partition(self, topic: str, partition: int) -> list[Entry]:
        known = self._known(topic)
        if not 0 <= partition < known.partitions:
            raise TransientError(f"topic {topic} has no partition {partition}")
        return self._entries.setdefault((topic, partition), [])


class MemoryReader:
    """Reads partitions of a MemoryLog."""

    def __init__(self, log: MemoryLog, starts: dict[TopicPartition, int]) -> None:
        self._log = log
        self._positions = starts
        self._paused: Collection[str] = ()

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Adds partitions to read."""
        self._positions.update(starts)

    def pause(self, topics: Collection[str]) -> None:
        """Reads nothing of these topics."""
        self._paused = topics

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        """Returns the next records, or an empty list after `max_wait_s`."""
        try:
            async with asyncio.timeout(max_wait_s):
                while not (found := self._take(max_records)):
                    await self._log._next_append()
                return found
        except TimeoutError:
            return []

    def _take(self, max_records: int) -> list[Entry]:
        found: list[Entry] = []
        for (topic, partition), position in self._positions.items():
            if topic in self._paused:
                continue
            entries = self._log._partition(topic, partition)
            if position > len(entries):
                raise OffsetGoneError(f"{topic}-{partition} ends at {len(entries)}, position is {position}")
            taken = entries[position : position + max_records - len(found)]
            self._positions[topic, partition] = position + len(taken)
            found += taken
        return found

    async def close(self) -> None:
        """Ends the reader."""
