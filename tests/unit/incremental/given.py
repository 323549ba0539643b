"""Given: a dataset in a file, and what a watcher sees of it."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from trackside.aggregates.dataset.messages import DatasetEnd, DatasetFormat
from trackside.incremental.outputs import OutputError
from trackside.incremental.watching.datasets import open_dataset
from trackside.incremental.watching.drift_window import DriftWindow
from trackside.incremental.watching.growth import DatasetGrowth


@dataclass
class WatchedFile:
    """A file, the growth of it that is followed, and all samples that were seen; `now_s` is the clock."""

    path: Path
    format: DatasetFormat = "txt"
    observed: DatasetEnd = field(default_factory=DatasetEnd)
    now_s: float = 0.0
    seen: list[bytes] = field(default_factory=list)
    window: DriftWindow | None = None

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Follows it from what was observed on, as another watcher would."""
        source = open_dataset(str(self.path), None)
        seen, clock = self.seen.extend, lambda: self.now_s
        self.growth = DatasetGrowth(source, self.format, self.observed, clock, seen, self.window)

    def append(self, octets: bytes) -> None:
        """Appends to the file, at a time of its own."""
        with self.path.open("ab") as file:
            file.write(octets)
        self.touch()

    def rewrite(self, octets: bytes) -> None:
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.write(octets)
            file.truncate()
        self.touch()

    def touch(self) -> None:
        """Sets a time of the last write that the file hasn't had."""
        found = self.path.stat()
        os.utime(self.path, ns=(found.st_atime_ns, found.st_mtime_ns + 1_000_000))

    def grow(self, octets: bytes) -> bool:
        self.append(octets)
        return self.look()

    def look(self) -> bool:
        try:
            return self.growth.look()
        finally:
            self.observed = self.growth.end


@contextmanager
def refused(code: str, match: str | None = None) -> Iterator[None]:
    with pytest.raises(OutputError, match=match) as caught:
        yield
    assert caught.value.code == code


def end_of(octets: bytes, lines: int) -> DatasetEnd:
    return DatasetEnd(lines=lines, size=len(octets), sha256=hashlib.sha256(octets).hexdigest())
