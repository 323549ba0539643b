"""A virtual log: the guarantees of Kafka's, on a network with faults.

Appends take time, get lost, or are written without an acknowledgement, even after the writer got an error.
Each partition is read with its own delay, so records of two partitions are seen in any order. An append in
flight belongs to the network: it is written even if its writer is dead by then.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import MAX_RECORD_BYTES, Topic, Topics
from trackside.eventlog.errors import OffsetGoneError, PreflightError, TooLargeError, TransientError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Appended, Entry, Outgoing, TopicPartition
from trackside.simulation.virtual.loop import PROCESS, ProcessState, VirtualLoop
from trackside.simulation.virtual.segment_store import UNPACKED_ENTRIES, SegmentStore


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """The faults of the network: times in s, and the shares of appends, commands and reads that they hit.

    `lost`: an append fails. `unacknowledged`: it is written, and its writer gets an error. `late`: its writer
    gets an error, and it is written after that. `stalled`: a reader sees a partition only after up to
    `stall_s`. Of commands to devices some are `dropped`, some written twice (`repeated`), some `delayed`.
    """

    append_s: tuple[float, float] = (0.001, 0.003)
    read_s: tuple[float, float] = (0.0005, 0.004)
    stall_s: float = 1.5
    late_s: float = 3.0
    lost: float = 0.0
    unacknowledged: float = 0.0
    late: float = 0.0
    stalled: float = 0.0
    dropped: float = 0.0
    repeated: float = 0.0
    delayed: float = 0.0


NO_FAULTS = NetworkFaults()


class CachedTopics(Topics):
    """Topics that are built once: a simulation uses them at every step."""

    events = cached_property(lambda self: super().events)
    fleet = cached_property(lambda self: super().fleet)
    heartbeats = cached_property(lambda self: super().heartbeats)
    dead_letters = cached_property(lambda self: super().dead_letters)
    metrics = cached_property(lambda self: super().metrics)


class VirtualLog:
    """Topics as lists of entries, on the network of a virtual loop; `faults` counts those that happened.

    With `compact` old entries are packed; those of the topics in `drops_old` are dropped.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        rng: Random,
        network_faults: NetworkFaults = NO_FAULTS,
        *,
        compact: bool = False,
        drops_old: frozenset[str] = frozenset(),
    ) -> None:
        self.network_faults = network_faults
        self.faults: Counter[str] = Counter()
        self.on_append: Callable[[str, Outgoing], None] | None = None
        self.entries: dict[TopicPartition, list[Entry] | SegmentStore] = {}
        self._compact = compact
        self._drops_old = drops_old
        self._loop = loop
        self._rng = rng
        self._topics: dict[str, Topic] = {}
        self._limits: dict[str, int] = {}
        self._records: dict[TopicPartition, list[Record | None]] = {}
        self._readers: dict[TopicPartition, list[VirtualReader]] = {}

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch atomically, after a delay; raises TransientError if it isn't acknowledged."""
        place = self._place(topic, partition)
        size_bytes = 0
        for record in batch:
            size_bytes += len(record.key or b"") + len(record.value or b"")
        if size_bytes > self._limits[topic]:
            raise TooLargeError(f"a batch for {topic} is over {self._limits[topic]} bytes")
        low, high = self.network_faults.append_s
        delay, answer = low + self._rng.random() * (high - low), self._loop.create_future()
        failure = self._append_failure()
        if failure == "late":
            late_s = delay + self._rng.random() * self.network_faults.late_s
            self._loop.post(late_s, self._land, place, batch, None)
        acknowledged = answer if failure == "" else None
        if failure in ("", "untold"):
            self._loop.post(delay, self._land, place, batch, acknowledged)
        if acknowledged is None:
            self._loop.post(delay, _fail, answer, f"{topic}-{partition}: {failure}")
        landed: Appended = await answer
        return landed

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends one record; commands to devices may be dropped, repeated or delayed."""
        if ".device." in topic:
            if self._happens("dropped", self.network_faults.dropped):
                return Appended(0, self._loop.now_ms())
            if self._happens("repeated", self.network_faults.repeated):
                await self.append(topic, partition, [record])
            if self._happens("delayed", self.network_faults.delayed):
                late_s = self._rng.random() * self.network_faults.late_s
                self._loop.post(late_s, self._land, self._place(topic, partition), [record], None)
                return Appended(0, self._loop.now_ms())
        return await self.append(topic, partition, [record])

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> "VirtualReader":
        """Opens a reader at the given offsets."""
        return VirtualReader(self, self._loop, starts)

    async def ends(self, topic: str) -> dict[int, int]:
        """Returns the next offset of each partition, after a round trip."""
        await self._round_trip()
        count = self._topic(topic).partitions
        return {partition: len(self.entries[topic, partition]) for partition in range(count)}

    async def ends_of(self, topics: Collection[str]) -> dict[str, dict[int, int]]:
        """Returns the same of several topics, by topic."""
        return {topic: await self.ends(topic) for topic in topics}

    async def beginnings(self, topic: str) -> dict[int, int]:
        """Returns the first offset of each partition, always 0."""
        await self._round_trip()
        return dict.fromkeys(range(self._topic(topic).partitions), 0)

    async def ensure(self, topics: Sequence[Topic]) -> None:
        """Creates the topics that don't exist."""
        self.create(topics)

    def create(self, topics: Sequence[Topic]) -> None:
        """Creates the topics that don't exist, without a round trip."""
        for topic in topics:
            if topic.name in self._topics:
                continue
            self._topics[topic.name] = topic
            self._limits[topic.name] = min(int(topic.settings["max.message.bytes"]), MAX_RECORD_BYTES)
            for partition in range(topic.partitions):
                place = (topic.name, partition)
                self.entries[place] = (
                    SegmentStore(place, drops_old=topic.name in self._drops_old) if self._compact else []
                )
                self._records[topic.name, partition] = []

    async def preflight(self, topics: Sequence[Topic]) -> None:
        """Checks that the topics exist; raises PreflightError."""
        for topic in topics:
            if topic.name not in self._topics:
                raise PreflightError(f"topic {topic.name} does not exist")

    async def cluster_id(self) -> str:
        """Returns `simulated`."""
        return "simulated"

    async def close(self) -> None:
        """Does nothing: there are no connections."""

    def clear(self) -> None:
        """Drops everything, once no reader and no writer is left."""
        self.on_append = None
        for held in (self.entries, self._records, self._readers):
            held.clear()

    def decoded(self, entry: Entry) -> Record | None:
        """Decodes an entry, once for all readers."""
        records = self._records[entry.topic, entry.partition]
        if self._compact and entry.offset < len(records) - UNPACKED_ENTRIES:
            return decode(entry)
        found = records[entry.offset]
        if found is None:
            found = records[entry.offset] = decode(entry)
        else:
            found.trust, found.distrust = None, ""  # which are of the reader before this one
        return found

    def between(self, place: TopicPartition, first: int, end: int) -> Sequence[Entry]:
        """Returns the entries of a partition from one offset to before another one."""
        return self.entries[place][first:end]

    def digest(self) -> str:
        """Returns the sha256 of everything written, with positions and times."""
        summary = hashlib.sha256()
        for place in sorted(self.entries):
            for entry in self.entries[place]:
                line = (*place, entry.offset, entry.append_time_ms, entry.key, entry.value, *entry.headers)
                summary.update(repr(line).encode())
        return summary.hexdigest()

    def follow(self, reader: "VirtualReader", place: TopicPartition) -> None:
        """Subscribes a reader to appends of a partition."""
        self._readers.setdefault(place, []).append(reader)

    def unfollow(self, reader: "VirtualReader", place: TopicPartition) -> None:
        """Ends a subscription."""
        if reader in self._readers.get(place, ()):
            self._readers[place].remove(reader)

    def _land(
        self, place: TopicPartition, batch: Sequence[Outgoing], answer: asyncio.Future[Appended] | None
    ) -> None:
        entries, records, time_ms = self.entries[place], self._records[place], self._loop.now_ms()
        first = len(entries)
        for at, record in enumerate(batch, first):
            entry = Entry(*place, at, time_ms, record.key, record.value, record.headers)
            entries.append(entry)
            records.append(None)
            if self._compact and at >= UNPACKED_ENTRIES:
                records[at - UNPACKED_ENTRIES] = None
            if self.on_append is not None:
                self.on_append(place[0], record)
        if answer is not None and not answer.done():
            answer.set_result(Appended(first, time_ms))
        if readers := self._readers.get(place):
            self._notify_readers(readers, place)

    def _notify_readers(self, readers: list["VirtualReader"], place: TopicPartition) -> None:
        low, high = self.network_faults.read_s
        has_dead_readers = False
        for reader in readers:
            if reader.is_dead:
                has_dead_readers = True
            elif place not in reader.notified:
                delay = low + self._rng.random() * (high - low)
                if self._happens("stalled", self.network_faults.stalled):
                    delay += self._rng.random() * self.network_faults.stall_s
                reader.notified.add(place)
                self._loop.post(delay, reader.data_arrived, place)
        if has_dead_readers:
            self._readers[place] = [reader for reader in readers if not reader.is_dead]

    def _append_failure(self) -> str:
        rates = self.network_faults
        if not (rates.lost or rates.unacknowledged or rates.late):
            return ""
        drawn = self._rng.random()
        for failure, share in (
            ("lost", rates.lost),
            ("untold", rates.unacknowledged),
            ("late", rates.late),
        ):
            if drawn < share:
                self.faults[failure] += 1
                return failure
            drawn -= share
        return ""

    def _happens(self, fault: str, share: float) -> bool:
        happens = share > 0 and self._rng.random() < share
        if happens:
            self.faults[fault] += 1
        return happens

    async def _round_trip(self) -> None:
        done = self._loop.create_future()
        self._loop.post(self._rng.random() * 0.002, _resolve, done)
        await done

    def _topic(self, topic: str) -> Topic:
        if topic not in self._topics:
            raise TransientError(f"topic {topic} does not exist")
        return self._topics[topic]

    def _place(self, topic: str, partition: int) -> TopicPartition:
        if not 0 <= partition < self._topic(topic).partitions:
            raise TransientError(f"topic {topic} has no partition {partition}")
        return topic, partition


class VirtualReader:
    """Reads partitions of a VirtualLog, each as far as the network has delivered it."""

    def __init__(self, log: VirtualLog, loop: VirtualLoop, starts: Mapping[TopicPartition, int]) -> None:
        self.notified: set[TopicPartition] = set()
        self._log = log
        self._loop = loop
        self._process = PROCESS.get()
        self._positions: dict[TopicPartition, int] = {}
        self._readable: dict[TopicPartition, None] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self._paused: Collection[str] = ()
        self.assign(starts)

    @property
    def is_dead(self) -> bool:
        """Returns whether the reader is closed, or its process killed."""
        return self._closed or (self._process is not None and self._process.state is ProcessState.DEAD)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Adds partitions to read."""
        for place, offset in starts.items():
            if place not in self._positions:
                self._log.follow(self, place)
            self._positions[place] = offset
            self._readable[place] = None

    def pause(self, topics: Collection[str]) -> None:
        """Reads nothing of these topics."""
        if topics or self._paused:
            self._paused = topics

    def data_arrived(self, place: TopicPartition) -> None:
        """Marks a partition as readable to its end."""
        self.notified.discard(place)
        self._readable[place] = None
        if self._waiter is not None:
            _resolve(self._waiter)

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        """Returns the next records, or an empty list after `max_wait_s`."""
        until = self._loop.time() + max_wait_s
        while not (found := self._take(max_records)):
            if self._loop.time() >= until:
                return []
            self._waiter = waiter = self._loop.create_future()
            timer = self._loop.call_at(until, _resolve, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        return found

    async def close(self) -> None:
        """Closes the reader."""
        self._closed = True
        for place in self._positions:
            self._log.unfollow(self, place)

    def _take(self, max_records: int) -> list[Entry]:
        found: list[Entry] = []
        for place in list(self._readable):
            if place[0] in self._paused:
                continue
            entries, position = self._log.entries[place], self._positions[place]
            if position > len(entries):
                raise OffsetGoneError(f"{place[0]}-{place[1]} ends at {len(entries)}, position is {position}")
            taken = entries[position : position + max_records - len(found)]
            self._positions[place] = position = position + len(taken)
            found += taken
            if position < len(entries):
                break
            del self._readable[place]
        return found


def _fail(answer: asyncio.Future[Appended], why: str) -> None:
    if not answer.done():
        answer.set_exception(TransientError(why))


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
