"""Hard examples of an inference service: kept within limits, stored, and appended to a dataset."""

import fcntl
import json
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trackside.artifacts.blobs.urls import local_path
from trackside.eventlog.clock import monotonic_s
from trackside.incremental.serving.serving_messages import AppendTarget, plain_value
from trackside.sdk.in_task.saving import SaveError

ARTIFACT = "hard-examples"
"""Name and kind of the artifacts."""
Save = Callable[[str, bytes, str, Mapping[str, Any]], None]
"""How they are stored, as `trial.save` does."""

MAX_EXAMPLES = 1_000
"""How many hard examples wait until they are stored; more are counted only."""
MAX_BYTES = 8 * 2**20
"""How many bytes these have together."""
MAX_APPENDED_BYTES = 2**30
"""How many bytes one process appends to a dataset."""
FILES_PER_GAP = 100
"""After so many files the time between two of them doubles: a task may save 1,000 artifacts."""


class HardExample(NamedTuple):
    """A hard example: what came in, what was answered and with which scores, by which version."""

    inputs: Any
    outputs: Any
    scores: Any
    version: int

    def line(self) -> str:
        """Returns it as JSON in one line. Raises TypeError or ValueError for what JSON can't hold."""
        return json.dumps(self._asdict(), allow_nan=False, ensure_ascii=False, default=plain_value)


class BoundedLines:
    """Lines that wait, at most MAX_EXAMPLES and MAX_BYTES; any thread may add."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._size_bytes = 0
        self.left_out = 0
        """How many lines there was no room for."""

    def add(self, line: str) -> None:
        """Adds a line, if there is room. Raises ValueError for a text that UTF-8 can't hold."""
        size_bytes = len(line.encode()) + 1
        with self._lock:
            if len(self._lines) >= MAX_EXAMPLES or self._size_bytes + size_bytes > MAX_BYTES:
                self.left_out += 1
                return
            self._lines.append(line)
            self._size_bytes += size_bytes

    def waiting(self) -> list[str]:
        """Returns the lines that wait."""
        with self._lock:
            return [*self._lines]

    def drop(self, lines: Sequence[str], left_out: int = 0) -> None:
        """Removes lines that `waiting` has returned, and what was said of those that were left out."""
        with self._lock:
            self.left_out -= left_out
            del self._lines[: len(lines)]
            self._size_bytes -= sum(len(each.encode()) + 1 for each in lines)


class DatasetFile:
    """The file of a dataset on this host: each call appends lines that are whole, with one write.

    Raises ValueError for a URL of another host.
    """

    def __init__(self, target: AppendTarget) -> None:
        path = local_path(target.url)
        if path is None:
            raise ValueError(f"append_to: expected a path or a file:// URL, got {target.url}")
        self.path: Path = path
        self.form = target.format
        self._appended_bytes = 0

    def append(self, samples: Sequence[str]) -> None:
        """Appends a line for each sample, under a lock, so that writers of this kind do not mix.

        Raises ValueError, with the file as it was, for a file whose last line has no end, a csv file without
        its header, and more than MAX_APPENDED_BYTES; OSError for a file that can't be written.
        """
        content = "".join(f"{each}\n" for each in samples).encode()
        if self._appended_bytes + len(content) > MAX_APPENDED_BYTES:
            raise ValueError(f"this process has appended {self._appended_bytes:,} bytes, which is the limit")
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                raise ValueError(f"the last line of {self.path} has no end")
            if not size and self.form == "csv":
                raise ValueError(f"{self.path} has no header line")
            _write_whole(descriptor, content, size)
        finally:
            os.close(descriptor)
        self._appended_bytes += len(content)


def _write_whole(descriptor: int, content: bytes, size: int) -> None:
    """Writes at the end, or not at all: what a full disk has taken of a line is cut off again."""
    written = os.write(descriptor, content)
    if written == len(content):
        return
    if os.fstat(descriptor).st_size == size + written:
        os.ftruncate(descriptor, size)
    raise OSError(f"only {written:,} of {len(content):,} bytes could be written")


class HardExampleStore:
    """Keeps hard examples until the end of a window; then they are appended to a dataset, and stored.

    They are stored as an artifact of the task, whose lines are JSON. The time between two of these doubles
    after each FILES_PER_GAP, from `window_s` on. What fails is tried again in the next window, with what
    there was room for.
    """

    def __init__(self, dataset: DatasetFile | None, window_s: float, save: Save) -> None:
        self._dataset = dataset
        self._window_s = window_s
        self._save = save
        self._lines, self._samples = BoundedLines(), BoundedLines()
        self._files = 0
        self._saved_at_s = -math.inf

    def add(self, example: HardExample, sample: Callable[[], str]) -> None:
        """Adds an example, and its sample if there is a dataset.

        Raises TypeError or ValueError for an example that JSON can't hold, or a sample that is not a line.
        """
        line = example.line()
        if self._dataset is not None:
            self._samples.add(checked_sample(sample(), self._dataset.form))
        self._lines.add(line)

    def end_window(self, is_last: bool = False) -> list[str]:
        """Appends and stores what waits; returns what went wrong."""
        return [*self._append(), *self._store(is_last)]

    def _append(self) -> list[str]:
        samples = self._samples.waiting()
        if self._dataset is None or not samples:
            return []
        try:
            self._dataset.append(samples)
        except (OSError, ValueError) as error:
            return [f"{len(samples)} hard examples could not be appended: {error}"]
        self._samples.drop(samples)
        return []

    def _store(self, is_last: bool) -> list[str]:
        lines = self._lines.waiting()
        gap_s = self._window_s * 2 ** (self._files // FILES_PER_GAP)
        # Half a window less: one window later is the next one, however late this call is.
        is_due = is_last or monotonic_s() - self._saved_at_s >= gap_s - self._window_s / 2
        if not lines or not is_due:
            return []
        content = "".join(f"{each}\n" for each in lines).encode()
        left_out = self._lines.left_out
        metadata = {"examples": len(lines), "left_out": left_out}
        try:
            self._save(ARTIFACT, content, ARTIFACT, metadata)
        except SaveError as error:
            return [f"{len(lines)} hard examples could not be stored: {error}"]
        self._lines.drop(lines, left_out)
        self._files += 1
        self._saved_at_s = monotonic_s()
        return []


def checked_sample(sample: Any, form: str) -> str:
    """Returns a sample of a dataset. Raises ValueError for what is not a line of its format."""
    if not isinstance(sample, str) or not sample.strip() or set(sample) & set("\n\r\0"):
        raise ValueError(f"as_sample: expected a text of one line, got {str(sample)[:80]!r}")
    if form == "jsonl":
        json.loads(sample)
    return sample
