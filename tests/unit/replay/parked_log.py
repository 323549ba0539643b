"""A long log of a stream that is parked early and goes on at the end; entries are made as they are read."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import overload

from tests.unit.aggregates.given import published
from tests.unit.domain.given import (
    FIRST_MS,
    STREAM,
    Told,
    accepted,
    ended,
    record_of,
    report,
    status,
    task_active,
)
from tests.unit.replay.given import TOPICS
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import CommandAccepted, Source
from trackside.contracts.streams.parking import RecordSkipped, SkipRecord, UnknownRecord
from trackside.contracts.tasks.tasks import TaskStatus
from trackside.eventlog.log import Entry
from trackside.eventlog.memory import MemoryLog

PARTITION = partition_of(STREAM, TOPICS.event_partitions)
EVENTS = (TOPICS.events.name, PARTITION)
REPORTS_EVERY = 50
NEW = UnknownRecord(unknown_type="trackside.trial-cloned.v1")


def entry_of(record: Record, offset: int) -> Entry:
    headers = [*record.envelope.headers.items()]
    value = record.message.model_dump_json().encode()
    if isinstance(record.message, UnknownRecord):
        headers = [(name, octets) for name, octets in headers if name != "ce_type"]
        headers.append(("ce_type", record.message.unknown_type.encode()))
    return Entry(*EVENTS, offset, FIRST_MS + offset, STREAM.encode(), value, headers)


def records(*messages: Message, role: str = "") -> list[Record]:
    """Returns messages as the records of one decision."""
    decision = f"d-{id(messages)}"
    return [
        record_of(message, at, role, STREAM, (decision, at, len(messages)) if len(messages) > 1 else None)
        for at, message in enumerate(messages)
    ]


@dataclass
class LongPartition(Sequence[Entry]):
    """The entries of a partition: some, `many` that are alike, and some more."""

    head: list[Record]
    many: int
    tail: list[Record] = field(default_factory=list)
    later: list[Entry] = field(default_factory=list)
    """What services have written meanwhile."""

    def __post_init__(self) -> None:
        self._plain = entry_of(record_of(status(TaskStatus.LOADING), 0), 0)
        self._report = entry_of(record_of(report(7_777_777, 0.5), 0), 0)

    def __len__(self) -> int:
        return len(self.head) + self.many + len(self.tail) + len(self.later)

    def append(self, entry: Entry) -> None:
        self.later.append(entry)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> list[Entry]: ...
    def __getitem__(self, at: int | slice) -> Entry | list[Entry]:
        if isinstance(at, slice):
            return [self._entry(offset) for offset in range(*at.indices(len(self)))]
        return self._entry(at)

    def _entry(self, offset: int) -> Entry:
        since = offset - len(self.head)
        if since < 0:
            return entry_of(self.head[offset], offset)
        if since >= self.many + len(self.tail):
            return self.later[since - self.many - len(self.tail)]
        if since >= self.many:
            return entry_of(self.tail[since - self.many], offset)
        if since % REPORTS_EVERY:
            plain = self._plain
            return Entry(*EVENTS, offset, FIRST_MS + offset, plain.key, plain.value, list(plain.headers))
        assert self._report.value is not None
        value = self._report.value.replace(b"7777777", str(since).encode())
        return Entry(*EVENTS, offset, FIRST_MS + offset, self._report.key, value, list(self._report.headers))


def head(*, parks: bool) -> list[Record]:
    """Returns a search with a task that runs, and then what parks the stream, or a record without effect."""
    told: Told = task_active()
    last = record_of(NEW, 0, "dispatcher") if parks else record_of(report(0, 0.5, placement=9), 0)
    return [*told.records, last]


def tail(parked_at: int, at: int, *, skips: bool = True) -> list[Record]:
    """Returns the command to skip what parks the stream, what is decided, and the end of the task."""
    command = SkipRecord(partition=PARTITION, offset=parked_at, reason="an accident")
    asked = published(at, command.wire_type(), command.model_dump(), command_id="c-skip")
    source = Source(**asked.source.model_dump())
    answer = CommandAccepted(command_id="c-skip", source=source)
    skipped = RecordSkipped(command_id="c-skip", partition=PARTITION, offset=parked_at, reason="an accident")
    decided = records(answer, skipped if skips else accepted())
    return [
        *records(asked),
        *decided,
        record_of(report(9_999_999, 0.25, final=True), 0),
        record_of(ended(), 0),
    ]


async def long_log(count: int, *, parks: bool = True, goes_on: bool = True) -> MemoryLog:
    """Returns a log with so many records after the one that parks the stream, if one `parks` it."""
    log = MemoryLog()
    await log.ensure(TOPICS.shared)
    first = head(parks=parks)
    last = tail(len(first) - 1, len(first) + count, skips=parks) if goes_on else []
    log._entries[EVENTS] = LongPartition(first, count, last)  # type: ignore[assignment]  # it only reads it
    return log
