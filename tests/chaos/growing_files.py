"""Event files in three jobs that grow as writers leave them, and the points that must be there of them."""

import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from trackside.summaries.event_files.writing import first_record, record
from trackside.summary_indexer.watching.log_positions import job_id_of

FILES_OF_JOBS = {"a": 4, "b/c": 3, "d": 3}
TAGS = ("loss", "accuracy")
SESSIONS_PER_FILE = 10_000
MOST_RECORDS = 20
"""Records that one append has at most."""


class PointKey(NamedTuple):
    """Where a point is: its job, session, tag and step."""

    job_id: str
    session: int
    tag: str
    step: int


@dataclass
class GrowingFile:
    """An event file; `number` is that of its job, `rest` the second half of a record."""

    job_id: str
    path: Path
    number: int
    step: int = 0
    restarts: int = 0
    rest: bytes = b""

    def append(self, data: bytes) -> None:
        """Appends bytes, after the rest of the record that was left half."""
        with self.path.open("ab") as file:
            file.write(self.rest + data)
        self.rest = b""

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.path.stat().st_size


@dataclass
class GrowingFiles:
    """The files below a directory; `expected` has the value of each point that was written.

    Which file grows by what is drawn from `rng`. No file in `resting` grows. `watched` is the directory that
    indexers watch, if it is above this one.
    """

    base: Path
    rng: random.Random
    watched: Path | None = None
    files: list[GrowingFile] = field(default_factory=list)
    expected: dict[PointKey, float] = field(default_factory=dict)
    resting: list[GrowingFile] = field(default_factory=list)

    def __post_init__(self) -> None:
        watched = self.watched or self.base
        for job, count in FILES_OF_JOBS.items():
            folder = self.base / job
            folder.mkdir(parents=True)
            for number in range(1, count + 1):
                path = folder / f"events.out.tfevents.{number}.host"
                path.write_bytes(first_record(number))
                self.files.append(
                    GrowingFile(job_id_of(str(watched), str(folder.relative_to(watched))), path, number)
                )

    def grow(self) -> None:
        """Appends to a few files: records, and to some of them the half of one."""
        for file in self.rng.sample(self.files, 3):
            if file not in self.resting:
                self._append_records(file, self.rng.randrange(1, MOST_RECORDS), half=self.rng.random() < 0.3)

    def _append_records(self, file: GrowingFile, count: int, *, half: bool = False) -> None:
        data = b""
        for _ in range(count):
            records = [self._point(file, tag) for tag in TAGS]
            file.step += 1
            data += b"".join(records)
        cut = self.rng.randrange(1, len(records[-1])) if half else 0
        file.append(data[: len(data) - cut])
        file.rest = data[len(data) - cut :]

    def _point(self, file: GrowingFile, tag: str) -> bytes:
        value = math.nan if file.step % 17 == 0 else file.step / 2 + len(tag)
        session = SESSIONS_PER_FILE * file.number + file.restarts
        self.expected[PointKey(file.job_id, session, tag, file.step)] = value
        return record(tag, file.step, 1_000 + file.step, value)

    def lengthen(self, file: GrowingFile) -> None:
        """Appends some whole records."""
        self._append_records(file, 5)

    def restart(self, file: GrowingFile) -> None:
        """Makes a file go on at a lower step, as after a restart from a checkpoint."""
        self._append_records(file, 2)
        file.step = self.rng.randrange(file.step - 1)
        file.restarts += 1
        self._append_records(file, 1)

    def finish(self) -> None:
        """Appends the second halves of the records that were left half."""
        for file in self.files:
            file.append(b"")

    def damage(self, file: GrowingFile) -> int:
        """Appends records, of which the first one is damaged; returns where the damaged byte is."""
        file.append(b"")
        start = file.size
        self._append_records(file, 5)
        flip(file.path, start + 13)
        return start + 13

    def replace(self, file: GrowingFile, beside: Path) -> None:
        """Puts another, shorter file of the same name in the place of one."""
        shorter = beside / file.path.name
        shorter.write_bytes(first_record(77_000))
        shorter.replace(file.path)
        file.number = 1 + FILES_OF_JOBS[str(file.path.parent.relative_to(self.base))]
        file.step = file.restarts = 0
        file.rest = b""

    def counting(self) -> set[PointKey]:
        """Returns the points that count: no later session of their tag begins at or below their step."""
        first: dict[tuple[str, str], dict[int, int]] = {}
        for job_id, session, tag, step in self.expected:
            begun = first.setdefault((job_id, tag), {})
            begun[session] = min(step, begun.get(session, step))
        return {
            key
            for key in self.expected
            if not any(
                session > key.session and begin <= key.step
                for session, begin in first[key.job_id, key.tag].items()
            )
        }


def flip(path: Path, position: int) -> None:
    """Changes a byte of a file, and changes it back when it is called again."""
    with path.open("r+b") as file:
        file.seek(position)
        found = file.read(1)[0]
        file.seek(position)
        file.write(bytes([found ^ 1]))
