"""A view of a log that is read in a random order of its partitions, in small pieces.

A reader of a real log gets its partitions in any order too; within a partition the order is that of the log.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from trackside.contracts.envelope.topics import Topic
from trackside.eventlog.log import Appended, Entry, Log, Outgoing, Reader, TopicPartition

MAX_PIECE = 100
"""The most records that are read of one partition before another one has its turn."""


EntriesOf = Callable[[TopicPartition, int, int], Sequence[Entry]]
"""Returns the entries of a partition from one offset to before another one."""


class ShuffledLog:
    """The log `of`, whose readers return pieces of random partitions; nothing is to be appended meanwhile."""

    def __init__(self, of: Log, entries: EntriesOf, rng: Random) -> None:
        self._of = of
        self._entries = entries
        self._rng = rng

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> Reader:
        """Opens a reader at the offsets given."""
        return ShuffledReader(self._entries, starts, self._rng)

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch to the log."""
        return await self._of.append(topic, partition, batch)

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends one record to the log."""
        return await self._of.publish(topic, partition, record)

    async def ends(self, topic: str) -> dict[int, int]:
        """Returns the next offset of each partition."""
        return await self._of.ends(topic)

    async def ends_of(self, topics: Collection[str]) -> dict[str, dict[int, int]]:
        """Returns the same of several topics, by topic."""
        return await self._of.ends_of(topics)

    async def beginnings(self, topic: str) -> dict[int, int]:
        """Returns the first offset of each partition."""
        return await self._of.beginnings(topic)

    async def cluster_id(self) -> str:
        """Returns the id of the log's cluster."""
        return await self._of.cluster_id()

    async def ensure(self, topics: Sequence[Topic]) -> None:
        """Creates the topics that don't exist."""
        await self._of.ensure(topics)

    async def preflight(self, topics: Sequence[Topic]) -> None:
        """Checks that the topics exist."""
        await self._of.preflight(topics)

    async def close(self) -> None:
        """Does nothing: the log belongs to its owner."""


class ShuffledReader:
    """Reads pieces of random partitions."""

    def __init__(self, entries: EntriesOf, starts: Mapping[TopicPartition, int], rng: Random) -> None:
        self._entries = entries
        self._rng = rng
        self._positions = dict(starts)

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Adds partitions to read."""
        self._positions.update(starts)

    def pause(self, topics: Collection[str]) -> None:
        """Does nothing: it may read what others pause, too."""

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        """Returns the next piece of a partition that has more, or an empty list after `max_wait_s`."""
        places = sorted(self._positions)
        self._rng.shuffle(places)
        for place in places:
            first = self._positions[place]
            end = first + self._rng.randint(1, min(MAX_PIECE, max_records))
            if found := list(self._entries(place, first, end)):
                self._positions[place] += len(found)
                return found
        await asyncio.sleep(max_wait_s)
        return []

    async def close(self) -> None:
        """Does nothing."""
