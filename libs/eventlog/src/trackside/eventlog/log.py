"""The interface of the log: append a batch to a partition, read partitions from offsets."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from trackside.contracts.envelope.topics import Topic

TopicPartition = tuple[str, int]
RecordHeaders = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Entry:
    """A record as read, not decoded; `append_time_ms` is ms since 1970 by the log's clock.

    `stored` is the value as the log has it, if that is encrypted and `value` is not.
    """

    topic: str
    partition: int
    offset: int
    append_time_ms: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders
    stored: bytes | None = None


@dataclass(slots=True)
class Outgoing:
    """A record to append; `time_ms` is for topics that keep a writer's time, None is now."""

    key: bytes | None
    value: bytes | None
    headers: RecordHeaders
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """The result of an append: the offset of the first record, and its append time in ms since 1970."""

    offset: int
    append_time_ms: int


class Reader(Protocol):
    """Reads assigned partitions in order, each from its own position; belongs to no group."""

    async def read(self, max_wait_s: float, max_records: int = 10_000) -> list[Entry]:
        """Returns the next records, in order within a partition; an empty list after `max_wait_s`.

        Raises OffsetGoneError if a position is before the first record kept.
        """
        ...

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Adds partitions to read, each from the offset given."""
        ...

    def pause(self, topics: Collection[str]) -> None:
        """Reads no records of these topics, from the next `read` on, and goes on with all others."""
        ...

    async def close(self) -> None:
        """Ends the reader."""
        ...


class Log(Protocol):
    """An append-only log of topics and partitions, in Kafka or in memory."""

    async def append(self, topic: str, partition: int, batch: Sequence[Outgoing]) -> Appended:
        """Appends a batch atomically and waits for the acknowledgement.

        Raises TransientError when the outcome is unknown, TooLargeError when the batch is over the limit.
        """
        ...

    async def publish(self, topic: str, partition: int, record: Outgoing) -> Appended:
        """Appends one record; concurrent callers share requests, so it suits streams of small records."""
        ...

    def reader(self, starts: Mapping[TopicPartition, int], gather_s: float = 0.0) -> Reader:
        """Opens a reader at the offsets given.

        With `gather_s` the broker may hold records back for so many seconds to return more of them at once,
        which saves requests.
        """
        ...

    async def ends(self, topic: str) -> dict[int, int]:
        """Returns, per partition, the offset that the next record will get. Raises TransientError."""
        ...

    async def ends_of(self, topics: Collection[str]) -> dict[str, dict[int, int]]:
        """Returns the same of several topics, by topic, in one request. Raises TransientError."""
        ...

    async def beginnings(self, topic: str) -> dict[int, int]:
        """Returns, per partition, the offset of the first record still kept. Raises TransientError."""
        ...

    async def ensure(self, topics: Sequence[Topic]) -> None:
        """Creates the topics that don't exist, with their settings; leaves those that do as they are."""
        ...

    async def preflight(self, topics: Sequence[Topic]) -> None:
        """Checks topics within 5 s; raises PreflightError naming topic, setting, found and expected.

        Raises TransientError if the log didn't answer.
        """
        ...

    async def cluster_id(self) -> str:
        """Returns the id of the cluster that keeps the log, the same for as long as it exists.

        Raises TransientError.
        """
        ...

    async def close(self) -> None:
        """Closes the connections."""
        ...
