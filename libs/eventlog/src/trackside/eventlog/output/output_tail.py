"""Reads the last lines of a task from the log, newest first, in bounded time: for pages that show them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.tasks.summaries import OutputWritten
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import OffsetGoneError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry, Log, Reader, TopicPartition
from trackside.eventlog.output.task_output import LINGER_S, OutputGap, OutputLine, OutputNumbering

FIRST_WINDOW = 2_000
"""How many records of the partition are read at first; four times as many if they have too few lines."""
LIMIT_S = 5.0
"""How long one read takes at most, s: then what was found until then is returned."""
_WAIT_S = 0.5
_LINGER_MS = round(LINGER_S * 1_000)

OutputItem = OutputLine | OutputGap


@dataclass(frozen=True, slots=True)
class OutputQuery:
    """Which lines are read: those of one task that contain `text`, in any case of its letters.

    `attempt` 0 is all attempts, an empty `source` standard output and error. All lines were written between
    `begin_ms` and `end_ms`, ms since 1970; no end: the task may still write.
    """

    task_id: str
    attempt: int = 0
    source: str = ""
    text: str = ""
    begin_ms: int = 0
    end_ms: int | None = None

    def selects(self, item: OutputItem) -> bool:
        """Returns whether a line is wanted; a gap is, unless a text is searched."""
        if self.attempt not in (0, item.attempt) or self.source not in ("", item.source):
            return False
        if isinstance(item, OutputGap):
            return not self.text
        return self.text.casefold() in item.text.casefold()


@dataclass(frozen=True, slots=True)
class OutputTail:
    """Lines in the order in which they were written; `next_offset` is where later ones follow.

    `has_earlier` says that there are lines before them, or may be: the time was over (`is_cut`).
    """

    items: Sequence[OutputItem]
    next_offset: int
    has_earlier: bool = False
    is_cut: bool = False


async def read_tail(
    log: Log, topic: str, query: OutputQuery, lines: int, limit_s: float = LIMIT_S
) -> OutputTail:
    """Returns the last lines that a query selects, at most `lines`, within `limit_s` seconds.

    Raises TransientError if the log doesn't answer.
    """
    deadline_s = monotonic_s() + limit_s
    async with _opened(log, topic, query.task_id) as partition:
        end = await partition.end_of(query, deadline_s)
        start, window, records = end, FIRST_WINDOW, list[Record]()
        items, is_first, is_cut = list[OutputItem](), end == partition.first, False
        while not (is_first or is_cut) and len(items) <= lines:
            begin = max(partition.first, start - window)
            found = await partition.records(begin, start, deadline_s)
            is_cut = found.next_offset < start
            if is_cut:
                break
            records = [*found.records, *records]
            is_first = begin == partition.first or found.oldest_ms < query.begin_ms
            items = _selected(records, query, from_first_line=is_first)
            start, window = begin, window * 4
        shown = items[-lines:]
        return OutputTail(shown, end, len(items) > len(shown) or not is_first, is_cut)


async def read_following(log: Log, topic: str, query: OutputQuery, offset: int, wait_s: float) -> OutputTail:
    """Waits up to `wait_s` seconds for lines from an offset on, and returns them; raises TransientError."""
    deadline_s = monotonic_s() + wait_s
    async with _opened(log, topic, query.task_id) as partition:
        offset, items = max(offset, partition.first), list[OutputItem]()
        while not items and monotonic_s() < deadline_s:
            found = await partition.records(offset, offset + FIRST_WINDOW, min(deadline_s, monotonic_s() + 1))
            offset = found.next_offset
            items = _selected(found.records, query, from_first_line=False)
        return OutputTail(items, offset)


async def stream_output(log: Log, topic: str, query: OutputQuery) -> AsyncGenerator[OutputItem, None]:
    """Yields all lines that a query selects and that are in the log now; raises TransientError."""
    numbering = OutputNumbering()
    async with _opened(log, topic, query.task_id) as partition:
        deadline_s = monotonic_s() + LIMIT_S
        end = await partition.end_of(query, deadline_s)
        offset, _ = await partition.offsets_around(query.begin_ms, deadline_s)
        while offset < end:
            found = await partition.records(offset, min(end, offset + FIRST_WINDOW), monotonic_s() + LIMIT_S)
            for record in found.records:
                for item in numbering.of(record):
                    if query.selects(item):
                        yield item
            if found.next_offset == offset:
                return
            offset = found.next_offset


def _selected(records: Sequence[Record], query: OutputQuery, *, from_first_line: bool) -> list[OutputItem]:
    numbering = OutputNumbering(from_first_line)
    return [item for record in records for item in numbering.of(record) if query.selects(item)]


@dataclass(frozen=True, slots=True)
class _Found:
    """Records of the task, the offset after the last one read, and the time of the first one read."""

    records: list[Record]
    next_offset: int
    oldest_ms: int


class _OutputPartition:
    """The partition of the topic that has the lines of a task."""

    def __init__(self, reader: Reader, place: TopicPartition, key: bytes, first: int, end: int) -> None:
        self._reader, self._place, self._key = reader, place, key
        self.first, self.end = first, end

    async def records(self, begin: int, end: int, deadline_s: float) -> _Found:
        """Returns the task's records between two offsets; those that are there when the time is over."""
        self._reader.assign({self._place: begin})
        found, oldest_ms, offset = list[Record](), 0, begin
        while offset < end and (left_s := deadline_s - monotonic_s()) > 0:
            entries = await self._read(min(_WAIT_S, left_s), end - offset)
            if not entries:
                if offset >= min(end, self.end) - 1:  # what is left are markers of transactions
                    offset = max(offset, min(end, self.end))
                    break
                continue
            oldest_ms = oldest_ms or entries[0].append_time_ms
            offset = min(end, entries[-1].offset + 1)
            found += [record for each in entries if each.offset < end and (record := self._taken(each))]
        return _Found(found, offset, oldest_ms)

    async def end_of(self, query: OutputQuery, deadline_s: float) -> int:
        """Returns the offset after the last line of a query, or a little later."""
        if query.end_ms is None or self.end - self.first <= FIRST_WINDOW:
            return self.end
        return (await self.offsets_around(query.end_ms + _LINGER_MS, deadline_s))[1]

    async def offsets_around(self, time_ms: int, deadline_s: float) -> tuple[int, int]:
        """Returns two offsets, found by halving: records before the first are not younger than a time, and
        those from the second on not older."""
        low, high = self.first, self.end
        while high - low > FIRST_WINDOW and monotonic_s() < deadline_s:
            middle = (low + high) // 2
            self._reader.assign({self._place: middle})
            entries = await self._read(_WAIT_S, 1)
            if entries and entries[0].append_time_ms <= time_ms:
                low = middle
            else:
                high = middle
        return low, high

    async def _read(self, wait_s: float, records: int) -> list[Entry]:
        try:
            return await self._reader.read(wait_s, max(1, min(records, 10_000)))
        except OffsetGoneError:  # these records expired meanwhile
            return []

    def _taken(self, entry: Entry) -> Record | None:
        record = decode(entry) if entry.key == self._key else None
        ours = record is not None and record.envelope.role in OutputWritten.written_by
        return record if ours else None


@asynccontextmanager
async def _opened(log: Log, topic: str, task_id: str) -> AsyncGenerator[_OutputPartition, None]:
    ends, beginnings = await log.ends(topic), await log.beginnings(topic)
    partition = partition_of(task_id, len(ends))
    place, first = (topic, partition), beginnings[partition]
    reader = log.reader({place: first})
    try:
        yield _OutputPartition(reader, place, task_id.encode(), first, ends[partition])
    finally:
        await reader.close()
