"""What is wrong with a running stack: kept in memory, and a line on standard error for each change."""

import contextlib
import os
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

from trackside.embedded.folder import DISK_LOW

MAX_UNWRITTEN_LINES = 100
STANDARD_ERROR = 2
NOTES = {DISK_LOW: "; no new task is started before that"}


@dataclass
class ProblemLog:
    """The problems of now, a sentence each, by subject; lines that can't be written now are written later."""

    problems: dict[str, str]
    _unwritten: deque[bytes] = field(default_factory=lambda: deque(maxlen=MAX_UNWRITTEN_LINES))

    def set(self, subject: str, sentence: str) -> None:
        """Records what is wrong with a subject, "" if nothing is."""
        before = self.problems.get(subject, "")
        if sentence:
            self.problems[subject] = sentence
        else:
            self.problems.pop(subject, None)
        if sentence and not before:
            self.line(f"stack.{subject}: {sentence}{NOTES.get(subject, '')}")
        elif before and not sentence:
            self.line(f"stack.{subject} is over")

    def line(self, sentence: str) -> None:
        """Writes a line with the time."""
        now = datetime.now(UTC).isoformat(timespec="seconds")  # noqa: TID251 - shown to people only
        self._unwritten.append(f"{now} {sentence}\n".encode())
        self.flush()

    def flush(self) -> None:
        """Writes the lines that could not be written so far; without sys.stderr, which would repeat parts."""
        with contextlib.suppress(OSError):
            while self._unwritten:
                written = os.write(STANDARD_ERROR, self._unwritten[0])
                rest = self._unwritten.popleft()[written:]
                if rest:
                    self._unwritten.appendleft(rest)
