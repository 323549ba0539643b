"""What a task reports that is no number: sent in a message where it is small, its bytes in the spool else.

A task that reports more than its worker can take away waits in its own process: in `report`.
"""

import errno
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from trackside.contracts.envelope.memory import shown
from trackside.eventlog.clock import monotonic_s
from trackside.sdk.in_task.channel import ReportedSummary
from trackside.worker.child.channel.spool import Spool
from trackside.worker.messages.report_messages import (
    StoredAnswer,
    StoredRequest,
    SummaryOmitted,
    SummaryValueReport,
)

MAX_BODY_BYTES = 32 * 1024
"""How long a body may be, as JSON: see trackside.summaries.kinds."""
MAX_FILE_BYTES = 512 * 1024 * 1024
"""How many bytes one value may have."""
MAX_UNSTORED_BYTES = 64 * 1024 * 1024
MAX_UNSTORED_FILES = 256
"""How much of a task may wait for the store before it waits too."""
FORK_FILES = 2**32
"""How far apart the numbers of files are of the processes that a task forks, which get no answers."""
FORK_WAIT_S, FORK_LOOK_S = 10.0, 0.02

SPOOL_FULL, BAD_SUMMARY = "spool_full", "bad_summary"
_NO_ROOM = "its bytes can't be kept"
_FULL = (errno.ENOSPC, errno.EDQUOT)

Send = Callable[[SummaryValueReport | SummaryOmitted | StoredRequest], None]


def summaries_below(spool: Path) -> Path:
    """Returns the folder of a spool with the bytes of summaries."""
    return spool / "summaries"


def summary_file(folder: Path, number: int) -> Path:
    """Returns the file with the bytes of a summary."""
    return folder / f"{number:08d}.content"


class SummarySender:
    """Sends the values of one task. `answer` waits for the answer to a request; None if there is none."""

    def __init__(self, send: Send, spool: Spool | None) -> None:
        self.answer: Callable[[int], StoredAnswer | None] = lambda _: None
        self._send = send
        self._folder = None if spool is None else summaries_below(spool.folder)
        self._taking = Lock()
        self._number = self._requests = 0
        self._unstored_bytes = self._unstored_files = 0
        self._is_forked = False

    def report(self, reported: ReportedSummary, file: Path | None = None) -> None:
        """Sends a value; waits for the store where it has too much of this task to keep.

        A file below the folder of the task is moved, another one is copied. What can't be kept is left out,
        and counted by the worker.
        """
        names = (reported.kind, reported.tag, reported.step, reported.time_ms, reported.index)
        source = reported.data if file is None else file
        if source is None:
            self._send(SummaryValueReport(*names, dict(reported.body)))
            return
        with self._taking:
            try:
                kept = self._keep(source)
            except _NotKept as problem:
                self._send(SummaryOmitted(problem.code, f"{reported.tag[:80]}: {problem}"))
                return
            body = dict(reported.body)
            if reported.kind == "image":  # the line of a program may leave out what its bytes say
                body = {"media_type": reported.media_type, "sha256": kept[1], "size_bytes": kept[2], **body}
            self._send(SummaryValueReport(*names, body, *kept, reported.media_type))
            self._wait_for_room()

    def begin_in_fork(self) -> None:
        """Numbers files apart from those of the parent; its lock may have been held by another thread."""
        self._taking = Lock()
        self._number = max(self._number, os.getpid() * FORK_FILES)
        self._is_forked = True

    def leave_out(self, tag: str, code: str, problem: str) -> None:
        """Reports a value whose bytes its program could not write."""
        self._send(SummaryOmitted(code, f"{tag[:80]}: {_NO_ROOM}: {problem}"))

    def _keep(self, source: bytes | Path) -> tuple[int, str, int]:
        """Puts bytes into the spool; returns number, digest and size of the file. Raises _NotKept."""
        if self._folder is None:
            raise _NotKept("store_missing", "the worker has no store; set TRACKSIDE_STORE for it")
        while (target := summary_file(self._folder, self._number + 1)).exists():
            self._number += 1  # another process of the task had this process's id
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            size_bytes = _put(source, target)
            with target.open("rb") as written:
                sha256 = hashlib.file_digest(written, "sha256").hexdigest()
        except OSError as error:
            target.unlink(missing_ok=True)
            code = SPOOL_FULL if error.errno in _FULL else BAD_SUMMARY
            raise _NotKept(code, f"{_NO_ROOM}: {error.strerror or error}") from error
        self._number += 1
        self._unstored_files += 1
        self._unstored_bytes += size_bytes
        return self._number, sha256, size_bytes

    def _wait_for_room(self) -> None:
        if self._unstored_files < MAX_UNSTORED_FILES and self._unstored_bytes < MAX_UNSTORED_BYTES:
            return
        if self._is_forked:
            self._wait_until_taken()
            self._unstored_bytes = self._unstored_files = 0
            return
        self._requests += 1
        self._send(StoredRequest(self._requests))
        if self.answer(self._requests) is not None:
            self._unstored_bytes = self._unstored_files = 0

    def _wait_until_taken(self) -> None:
        """Waits until the worker has taken the last file away, FORK_WAIT_S at most."""
        due_s = monotonic_s() + FORK_WAIT_S
        while monotonic_s() < due_s and summary_file(self._folder or Path(), self._number).exists():
            time.sleep(FORK_LOOK_S)


class _NotKept(Exception):
    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def _put(source: bytes | Path, target: Path) -> int:
    """Writes bytes to a new file, or moves or copies a file there; returns its size in bytes."""
    if isinstance(source, bytes):
        _check_size(len(source))
        target.write_bytes(source)
        return len(source)
    found = source.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file")
    _check_size(found.st_size)
    workdir = Path(os.environ.get("TRACKSIDE_WORKDIR") or Path.cwd())
    take = shutil.move if source.resolve().is_relative_to(workdir.resolve()) else shutil.copyfile
    take(source, target)
    return target.stat().st_size


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_FILE_BYTES:
        raise OSError(errno.EFBIG, f"it has {shown(size_bytes)}, more than {shown(MAX_FILE_BYTES)}")
