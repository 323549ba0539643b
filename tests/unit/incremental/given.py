"""Given: a dataset in a file, and what a watcher sees of it."""

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from trackside.aggregates.dataset.messages import DatasetEnd, DatasetFormat
from trackside.incremental.datasets import open_dataset
from trackside.incremental.drift_window import DriftWindow
from trackside.incremental.growth import DatasetGrowth


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
        self.growth = DatasetGrowth(
            source, self.format, self.observed, lambda: self.now_s, self.seen.extend, self.window
        )

    def append(self, octets: bytes) -> None:
        """Appends to the file, at a time of its own."""
        with self.path.open("ab") as file:
            file.write(octets)
        self.touch()

    def rewrite(self, octets: bytes) -> None:
        """Writes other bytes over the file, which stays the same file."""
        with self.path.open("r+b" if self.path.exists() else "wb") as file:
            file.write(octets)
            file.truncate()
        self.touch()

    def touch(self) -> None:
        """Gives the file a time of its last write that it hasn't had."""
        found = self.path.stat()
        os.utime(self.path, ns=(found.st_atime_ns, found.st_mtime_ns + 1_000_000))

    def look(self) -> bool:
        """Looks at the file once."""
        try:
            return self.growth.look()
        finally:
            self.observed = self.growth.end


def end_of(octets: bytes, lines: int) -> DatasetEnd:
    """Returns the end of so many samples, which are all of the bytes."""
    return DatasetEnd(lines=lines, size=len(octets), sha256=hashlib.sha256(octets).hexdigest())
