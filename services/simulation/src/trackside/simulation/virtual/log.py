"""The log in virtual memory: the same promises as Kafka's, and what a network may do to them.

Appends take time, get lost, or land without anybody being told - even after the writer was told that nobody
knows. Partitions are read with delays of their own, so that what lies in two of them is seen in any order.
What an append says on its way belongs to the network: it lands even if its writer is dead by then.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random

from trackside.contracts.message import Record
from trackside.contracts.topics import MAX_RECORD_BYTES, Topic, Topics
from trackside.eventlog.decode import decode
from trackside.eventlog.errors import OffsetGoneError, PreflightError, TooLargeError, TransientError
from trackside.eventlog.log import Appended, Entry, Outgoing, TopicPartition
from trackside.simulation.virtual.loop import PROCESS, State, VirtualLoop
from trackside.simulation.virtual.segment_store import FRESH, Shelf


@dataclass(frozen=True, slots=True)
class Weather:
    """What the network does: times in s, the shares of appends, commands and reads that it happens to.

    `lost`: an append fails. `untold`: it is written, but said to be unknown. `late`: it is said to be unknown
    and is written after that. `stalled`: a reader sees a partition only after `stall_s`. Of commands to
    devices some are `dropped`, some come twice (`repeated`), some `delayed`.
    """

    append_s: tuple[float, float] = (0.001, 0.003)
    read_s: tuple[float, float] = (0.0005, 0.004)
    stall_s: float = 1.5
    late_s: float = 3.0
    lost: float = 0.0
    untold: float = 0.0
    late: float = 0.0
    stalled: float = 0.0
    dropped: float = 0.0
    repeated: float = 0.0
    delayed: float = 0.0


CALM = Weather()


class FixedTopics(Topics):
    """The same topics, each made once: in a simulation they are asked for at every step."""

    events = cached_property(lambda self: super().events)
    fleet = cached_property(lambda self: super().fleet)
    heartbeats = cached_property(lambda self: super().heartbeats)
    dead_letters = cached_property(lambda self: super().dead_letters)
    metrics = cached_property(lambda self: super().metrics)


class VirtualLog:
    """Topics as lists of entries, on the network of a virtual loop; `faults` counts what went wrong.

    A `frugal` one packs what is old, and forgets the old entries of the topics in `forgets`.
    """

    def __init__(
        self,
        loop: VirtualLoop,
        chance: Random,
        weather: Weather = CALM,
        *,
        frugal: bool = False,
        forgets: frozenset[str] = frozenset(),
    ) -> None:
        self.weather = weather
        self.faults: Counter[str] = Counter()
        self.written: Callable[[str, Outgoing], None] | None = None
        self.entries: dict[TopicPartition, list[Entry] | Shelf] = {}
        self._frugal = frugal
        self._forgets = forgets
        self._loop = loop
        self._chance = chance
        self._topics: dict[str, Topic] = {}
        self._limits: dict[str, int] = {}
        self._records: dict[TopicPartition, list[Record | None]] = {}
        self._readers: dict[TopicPartition, list[VirtualReader]] = {}

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch whole, after a while; raises TransientError if the network won't say."""
        place = self._place(topic, partition)
        octets = 0
        for record in batch:
            octets += len(record.key or b"") + len(record.value or b"")
        if octets > self._limits[topic]:
            raise TooLargeError(f"a batch for {topic} is over {self._limits[topic]} bytes")
        low, high = self.weather.append_s
        delay, answer = low + self._chance.random() * (high - low), self._loop.create_future()
        fate = self._fate()
        if fate == "late":
            later = delay + self._chance.random() * self.weather.late_s
            self._loop.post(later, self._land, place, batch, None)
        told = answer if fate == "" else None
        if fate in ("", "untold"):
            self._loop.post(delay, self._land, place, batch, told)
        if told is None:
            self._loop.post(delay, _fail, answer, f"{topic}-{partition}: {fate}")
        landed: Appended = await answer
        return landed

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends one record; what goes to a device may be dropped, repeated or delayed."""
        if ".device." in topic:
            if self._strikes("dropped", self.weather.dropped):
                return Appended(0, self._loop.now_ms())
            if self._strikes("repeated", self.weather.repeated):
                await self.append(topic, partition, [record])
            if self._strikes("delayed", self.weather.delayed):
                later = self._chance.random() * self.weather.late_s
                self._loop.post(later, self._land, self._place(topic, partition), [record], None)
                return Appended(0, self._loop.now_ms())
        return await self.append(topic, partition, [record])

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> "VirtualReader":
        """Opens a reader at the offsets given."""
        return VirtualReader(self, self._loop, starts)

    async def ends(self, topic: str) -> dict[int, int]:
        """Gives the next offset of each partition, as it is after a moment."""
        await self._moment()
        count = self._known(topic).partitions
        return {partition: len(self.entries[topic, partition]) for partition in range(count)}

    async def beginnings(self, topic: str) -> dict[int, int]:
        """Gives the first offset of each partition, always 0."""
        await self._moment()
        return dict.fromkeys(range(self._known(topic).partitions), 0)

    async def ensure(self, topics: Sequence[Topic]) -> None:
        """Creates the topics that don't exist."""
        self.create(topics)

    def create(self, topics: Sequence[Topic]) -> None:
        """Creates the topics that don't exist, at once."""
        for topic in topics:
            if topic.name in self._topics:
                continue
            self._topics[topic.name] = topic
            self._limits[topic.name] = min(int(topic.settings["max.message.bytes"]), MAX_RECORD_BYTES)
            for partition in range(topic.partitions):
                place = (topic.name, partition)
                self.entries[place] = (
                    Shelf(place, forgets=topic.name in self._forgets) if self._frugal else []
                )
                self._records[topic.name, partition] = []

    async def preflight(self, topics: Sequence[Topic]) -> None:
        """Checks that the topics are there; raises PreflightError."""
        for topic in topics:
            if topic.name not in self._topics:
                raise PreflightError(f"topic {topic.name} does not exist")

    async def close(self) -> None:
        """Does nothing: there are no connections."""

    def clear(self) -> None:
        """Drops everything, when nobody is going to read or write any more."""
        self.written = None
        for held in (self.entries, self._records, self._readers):
            held.clear()

    def decoded(self, entry: Entry) -> Record | None:
        """Decodes an entry, as all readers do; what one has read needn't be decoded for the next."""
        records = self._records[entry.topic, entry.partition]
        if self._frugal and entry.offset < len(records) - FRESH:
            return decode(entry)
        found = records[entry.offset]
        if found is None:
            found = records[entry.offset] = decode(entry)
        return found

    def digest(self) -> str:
        """Gives the sha256 of all that was ever written, byte for byte, with places and times."""
        summary = hashlib.sha256()
        for place in sorted(self.entries):
            for entry in self.entries[place]:
                line = (*place, entry.offset, entry.append_time_ms, entry.key, entry.value, *entry.headers)
                summary.update(repr(line).encode())
        return summary.hexdigest()

    def follow(self, reader: "VirtualReader", place: TopicPartition) -> None:
        """Tells a reader of what is appended to a partition."""
        self._readers.setdefault(place, []).append(reader)

    def unfollow(self, reader: "VirtualReader", place: TopicPartition) -> None:
        """Tells a reader no more."""
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
            if self._frugal and at >= FRESH:
                records[at - FRESH] = None
            if self.written is not None:
                self.written(place[0], record)
        if answer is not None and not answer.done():
            answer.set_result(Appended(first, time_ms))
        if readers := self._readers.get(place):
            self._tell(readers, place)

    def _tell(self, readers: list["VirtualReader"], place: TopicPartition) -> None:
        low, high = self.weather.read_s
        gone = False
        for reader in readers:
            if reader.dead:
                gone = True
            elif place not in reader.coming:
                delay = low + self._chance.random() * (high - low)
                if self._strikes("stalled", self.weather.stalled):
                    delay += self._chance.random() * self.weather.stall_s
                reader.coming.add(place)
                self._loop.post(delay, reader.arrived, place)
        if gone:
            self._readers[place] = [reader for reader in readers if not reader.dead]

    def _fate(self) -> str:
        weather = self.weather
        if not (weather.lost or weather.untold or weather.late):
            return ""
        drawn = self._chance.random()
        for fate, share in (("lost", weather.lost), ("untold", weather.untold), ("late", weather.late)):
            if drawn < share:
                self.faults[fate] += 1
                return fate
            drawn -= share
        return ""

    def _strikes(self, what: str, share: float) -> bool:
        struck = share > 0 and self._chance.random() < share
        if struck:
            self.faults[what] += 1
        return struck

    async def _moment(self) -> None:
        passed = self._loop.create_future()
        self._loop.post(self._chance.random() * 0.002, _settle, passed)
        await passed

    def _known(self, topic: str) -> Topic:
        if topic not in self._topics:
            raise TransientError(f"topic {topic} does not exist")
        return self._topics[topic]

    def _place(self, topic: str, partition: int) -> TopicPartition:
        if not 0 <= partition < self._known(topic).partitions:
            raise TransientError(f"topic {topic} has no partition {partition}")
        return topic, partition


class VirtualReader:
    """Reads partitions of a VirtualLog, each as far as the network has brought it."""

    def __init__(self, log: VirtualLog, loop: VirtualLoop, starts: Mapping[TopicPartition, int]) -> None:
        self.coming: set[TopicPartition] = set()
        self._log = log
        self._loop = loop
        self._process = PROCESS.get()
        self._positions: dict[TopicPartition, int] = {}
        self._there: dict[TopicPartition, None] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False
        self.assign(starts)

    @property
    def dead(self) -> bool:
        """Says whether nobody reads any more."""
        return self._closed or (self._process is not None and self._process.state is State.DEAD)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Adds partitions to read."""
        for place, offset in starts.items():
            if place not in self._positions:
                self._log.follow(self, place)
            self._positions[place] = offset
            self._there[place] = None

    def arrived(self, place: TopicPartition) -> None:
        """Takes in that a partition can be read to its end."""
        self.coming.discard(place)
        self._there[place] = None
        if self._waiter is not None:
            _settle(self._waiter)

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        """Gives the next records, or an empty list after `max_wait_s`."""
        until = self._loop.time() + max_wait_s
        while not (found := self._take(max_records)):
            if self._loop.time() >= until:
                return []
            self._waiter = waiter = self._loop.create_future()
            timer = self._loop.call_at(until, _settle, waiter)
            try:
                await waiter
            finally:
                timer.cancel()
                self._waiter = None
        return found

    async def close(self) -> None:
        """Ends the reader."""
        self._closed = True
        for place in self._positions:
            self._log.unfollow(self, place)

    def _take(self, max_records: int) -> list[Entry]:
        found: list[Entry] = []
        for place in list(self._there):
            entries, position = self._log.entries[place], self._positions[place]
            if position > len(entries):
                raise OffsetGoneError(f"{place[0]}-{place[1]} ends at {len(entries)}, position is {position}")
            taken = entries[position : position + max_records - len(found)]
            self._positions[place] = position = position + len(taken)
            found += taken
            if position < len(entries):
                break
            del self._there[place]
        return found


def _fail(answer: asyncio.Future[Appended], why: str) -> None:
    if not answer.done():
        answer.set_exception(TransientError(why))


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
