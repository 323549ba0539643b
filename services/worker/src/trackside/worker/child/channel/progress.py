"""What a task has sent that decides, in a file, for a worker that takes the task over.

The worker that died may have read a message and not yet have written its event. Readers of the log ignore
what is there twice.
"""

import os
import sys
from pathlib import Path

from trackside.worker.child.process import masking
from trackside.worker.durable_files import write_all
from trackside.worker.messages.process_messages import (
    AnswerTaken,
    FromTask,
    ProcessFree,
    ServiceAlive,
    encode,
)
from trackside.worker.messages.report_messages import PointBatch, SummaryOmitted, SummaryValueReport

_LEFT_OUT: frozenset[type] = frozenset(
    {PointBatch, SummaryValueReport, SummaryOmitted, ServiceAlive, ProcessFree}
)
"""What is only to be looked at, and would make the file long, or says nothing later."""

FORKED = "forked"
"""Of an AnswerTaken: the task has forked a process that sends messages, too."""


def is_kept(message: FromTask | AnswerTaken) -> bool:
    """Returns whether a message is written to the file."""
    return type(message) not in _LEFT_OUT


class ProgressFile:
    """The progress file of one task. A task whose file can't be written runs on, and can't be taken over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._give_up(error)

    def add(self, message: FromTask | AnswerTaken) -> None:
        """Writes a message, unless it decides nothing; call it before the message is sent."""
        if self._file < 0 or not is_kept(message):
            return
        try:
            write_all(self._file, encode(masking.masked(message)))
        except OSError as error:
            self._give_up(error)

    def begin_in_fork(self) -> None:
        """Notes that several processes write from here on: the worker may read them in another order."""
        self.add(AnswerTaken(FORKED, os.getpid()))

    def close(self) -> None:
        """Closes the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _give_up(self, error: OSError) -> None:
        self.close()
        self._path.unlink(missing_ok=True)  # one with a gap must not be used
        problem = f"the task ends with its worker: {self._path} can't be written: {error.strerror}"
        sys.stderr.write(f"trackside: {problem}\n")
