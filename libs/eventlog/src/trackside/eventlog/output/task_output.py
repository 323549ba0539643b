"""Reads the lines of a task from the log: in order, each once, with gaps where lines are missing."""

import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.tasks.summaries import OutputWritten
from trackside.eventlog.clock import monotonic_s, now_ms
from trackside.eventlog.errors import OffsetGoneError
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry, Log, Reader

WAIT_S = 0.5
LINGER_S = 1.0
"""How long the last lines may arrive after the end of the task, which is in another topic."""
REMEMBERED = 1_000
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
_CONTROLS = dict.fromkeys([*range(9), *range(10, 32), *range(127, 160)], "\N{REPLACEMENT CHARACTER}")
_LEFT_OUT = re.compile(r"\[(\d+) more lines came too fast and were left out\]")


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line of output; `number` counts those of its attempt and source from 1."""

    attempt: int
    source: str
    number: int
    text: str
    time_ms: int


@dataclass(frozen=True, slots=True)
class OutputGap:
    """Lines that are missing in the log: the number of the first, and how many."""

    attempt: int
    source: str
    number: int
    count: int
    time_ms: int


def gap_text(gap: OutputGap) -> str:
    """Returns how many lines are missing, and which, as text."""
    if gap.count == 1:
        return f"[1 line of {gap.source} was left out: {gap.number}]"
    last = gap.number + gap.count - 1
    return f"[{gap.count:,} lines of {gap.source} were left out: {gap.number} to {last}]"


def printable(text: str) -> str:
    """Returns a line without escape sequences and control characters."""
    return _ESCAPES.sub("", text).translate(_CONTROLS)


@dataclass(slots=True)
class OutputNumbering:
    """Numbers the lines of one task, drops repeats and finds gaps."""

    from_first_line: bool = True
    """Whether all records are given from the first line on: else lines before the first record are no gap."""
    _next: dict[tuple[int, str], int] = field(default_factory=dict)
    _seen: dict[str, None] = field(default_factory=dict)

    def of(self, record: Record) -> list[OutputLine | OutputGap]:
        """Returns the lines of a record, after a gap if some are missing before them; none if it is a repeat.

        An attempt that was put back in the queue counts its lines from 1 again.
        """
        output, time_ms = record.message, record.append_time_ms
        if not isinstance(output, OutputWritten) or self._is_repeat(record.envelope.id):
            return []
        attempt, source, first = output.attempt, output.source, output.first_line
        expected = self._next.get((attempt, source), 1 if self.from_first_line else first)
        if first < expected:
            expected = 1
        found: list[OutputLine | OutputGap] = []
        if first > expected:
            found.append(OutputGap(attempt, source, expected, first - expected, time_ms))
        texts, left_out = _split(output.lines)
        found += [OutputLine(attempt, source, first + at, text, time_ms) for at, text in enumerate(texts)]
        end = first + len(texts)
        if left_out:
            found.append(OutputGap(attempt, source, end, left_out, time_ms))
        self._next[attempt, source] = end + left_out
        return found

    def _is_repeat(self, record_id: str) -> bool:
        if record_id in self._seen:
            return True
        self._seen[record_id] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return False


def _split(lines: list[str]) -> tuple[list[str], int]:
    """Splits lines from the worker's note at their end about how many more there were."""
    note = _LEFT_OUT.fullmatch(lines[-1]) if lines else None
    return (lines, 0) if note is None else (lines[:-1], int(note[1]))


class OutputReader:
    """Reads what a task has written, from the first line kept on.

    `oldest_ms` is the time of the oldest record of its partition, 0 while nothing of it has expired.
    """

    def __init__(self, log: Log, topic: str, task_id: str) -> None:
        self._log = log
        self._topic = topic
        self._key = task_id.encode()
        self._partition = 0
        self._position = 0
        self._reader: Reader | None = None
        self.oldest_ms = 0

    async def records(self, over: Callable[[], bool] | None = None) -> AsyncGenerator[Record, None]:
        """Yields the records that are there now; with `over` also new ones until it returns true.

        Records that arrive up to a second later are included, because the last lines may be late.
        """
        self._partition = partition_of(self._key.decode(), len(await self._log.ends(self._topic)))
        try:
            while over is not None and not over():
                for record in await self._read():
                    yield record
            deadline_s = monotonic_s() + (0.0 if over is None else LINGER_S)
            while monotonic_s() < deadline_s:
                for record in await self._read():
                    yield record
            end = (await self._log.ends(self._topic))[self._partition]
            while await self._opened() and self._position < end:
                for record in await self._read():
                    yield record
        finally:
            await self._close()

    async def _read(self) -> list[Record]:
        reader = await self._opened()
        try:
            entries = await reader.read(WAIT_S)
        except OffsetGoneError:  # the next records have expired meanwhile: continue with the oldest
            await self._close()
            return []
        return [record for entry in entries if (record := self._taken(entry)) is not None]

    async def _opened(self) -> Reader:
        """Returns the reader, at first at the oldest record."""
        if self._reader is None:
            self._position = (await self._log.beginnings(self._topic))[self._partition]
            self.oldest_ms = now_ms() if self._position else 0
            self._reader = self._log.reader({(self._topic, self._partition): self._position})
        return self._reader

    async def _close(self) -> None:
        if self._reader is not None:
            await self._reader.close()
            self._reader = None

    def _taken(self, entry: Entry) -> Record | None:
        self._position = entry.offset + 1
        self.oldest_ms = min(self.oldest_ms, entry.append_time_ms)
        if entry.key != self._key:
            return None
        record = decode(entry)
        ours = record is not None and record.envelope.role in OutputWritten.written_by
        return record if ours else None
