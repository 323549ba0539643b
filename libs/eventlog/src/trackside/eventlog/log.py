"""The log as everything else sees it: append a batch to a partition, read partitions from positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trackside.contracts.topics import Topic

TopicPartition = tuple[str, int]
Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Entry:
    """A record as read: bytes at their place; `append_time_ms` is ms since 1970 by the log's clock."""

    topic: str
    partition: int
    offset: int
    append_time_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(slots=True)
class Outgoing:
    """A record to append."""

    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class Appended:
    """Where a batch landed: the offset of its first record, and the log's time for it in ms."""

    offset: int
    append_time_ms: int


class Reader(Protocol):
    """Reads assigned partitions in order, each from its own position; belongs to no group."""

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        """Gives the next records, in order within a partition; an empty list after `max_wait_s`.

        Raises OffsetGoneError if a position lies before the first record kept.
        """
        ...

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Adds partitions to read, each from the offset given."""
        ...

    async def close(self) -> None:
        """Ends the reader."""
        ...


class Log(Protocol):
    """An append-only log of topics and partitions, Kafka or its twin in memory."""

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch whole, or not at all, and waits until it is safe.

        Raises TransientError when the answer isn't known, TooLargeError when it is over the limit.
        """
        ...

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends one record; many callers at once share requests, so it suits streams of small records."""
        ...

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> Reader:
        """Opens a reader at the offsets given.

        `gather_s` is for who is in no hurry: records may wait for others for so long, which spares the
        broker and the reader a round for each.
        """
        ...

    async def ends(self, topic: str) -> dict[int, int]:
        """Gives, per partition, the offset that the next record will get. Raises TransientError."""
        ...

    async def beginnings(self, topic: str) -> dict[int, int]:
        """Gives, per partition, the offset of the first record still kept. Raises TransientError."""
        ...

    async def ensure(self, topics: Sequence[Topic]) -> None:
        """Creates the topics that don't exist, with their settings; leaves those that do as they are."""
        ...

    async def preflight(self, topics: Sequence[Topic]) -> None:
        """Checks topics within 5 s; raises PreflightError naming topic, setting, found and expected.

        Raises TransientError if the log didn't answer.
        """
        ...

    async def close(self) -> None:
        """Lets go of connections."""
        ...
