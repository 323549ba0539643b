"""The lines that a placement writes, until they are published: without secrets, and not too many at once."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Literal

from trackside.contracts.envelope.redaction import LineRedactor
from trackside.contracts.tasks.summaries import OutputWritten
from trackside.worker.output_text import shown_line
from trackside.worker.reporting.journal import JournalEntry

MAX_FIRST_LINES = 400
MAX_LAST_LINES = 100

OutputSource = Literal["stdout", "stderr"]
SOURCES: tuple[OutputSource, OutputSource] = ("stdout", "stderr")


class OutputLines:
    """Collects lines of output between two publications: the first 400, the last 100, their number between.

    What looks like a secret is redacted.
    """

    def __init__(self, entry: JournalEntry) -> None:
        self._entry = entry
        self._lines: dict[OutputSource, list[str]] = {each: [] for each in SOURCES}
        self._redactors = {each: LineRedactor() for each in SOURCES}
        self._line_numbers = dict.fromkeys(SOURCES, 1)
        self._last_lines: dict[OutputSource, deque[str]] = {each: deque() for each in SOURCES}
        self._dropped_lines = dict.fromkeys(SOURCES, 0)

    def add(self, source: OutputSource, lines: Sequence[str]) -> None:
        """Takes lines."""
        first, last, redactor = self._lines[source], self._last_lines[source], self._redactors[source]
        room = max(0, MAX_FIRST_LINES - len(first))
        first += [shown_line(line, redactor) for line in lines[:room]]
        for line in lines[room:]:
            if len(last) == MAX_LAST_LINES:
                redactor.pass_over(last.popleft())
                self._dropped_lines[source] += 1
            last.append(line)

    def take(self) -> Iterator[OutputWritten]:
        """Yields what was collected, and forgets it."""
        for source in SOURCES:
            yield from self._batches(source)

    def _batches(self, source: OutputSource) -> Iterator[OutputWritten]:
        """Yields the first lines, with a note on those left out after them, and the last lines."""
        first, dropped = self._lines[source], self._dropped_lines[source]
        last = [shown_line(line, self._redactors[source]) for line in self._last_lines[source]]
        self._lines[source], self._dropped_lines[source] = [], 0
        self._last_lines[source].clear()
        if not dropped:
            yield from self._batch(source, [*first, *last])
            return
        note = f"[{dropped} more lines came too fast and were left out]"
        yield from self._batch(source, [*first, note], dropped - 1)
        yield from self._batch(source, last)

    def _batch(self, source: OutputSource, lines: list[str], more: int = 0) -> Iterator[OutputWritten]:
        """Yields lines and counts them, and `more` after them."""
        number = self._line_numbers[source]
        self._line_numbers[source] += len(lines) + more
        if lines:
            yield OutputWritten(
                stream=self._entry.stream,
                task_id=self._entry.task_id,
                attempt=self._entry.attempt,
                source=source,
                first_line=number,
                lines=lines,
            )
