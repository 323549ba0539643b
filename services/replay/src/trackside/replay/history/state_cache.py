"""States of long streams, kept on this machine's disk: a later look at the past begins from the nearest.

A file is a line that says what it is of, and the state. It is used only if it is whole, of the same fold, and
if the record behind which it was taken lies in the log where it lay, under the same id. So nothing has to be
invalidated: the log never changes, and what is of another log, release or stream is not believed.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.message import Record
from trackside.domain.stream import Stream
from trackside.domain.streams import load, pack
from trackside.eventlog.log import TopicPartition
from trackside.projections.snapshots import fold_name
from trackside.replay.history.moments import Moment

EVERY_RECORDS = 20_000
"""After how many records a state is kept: at most so many are folded at a later look."""
MOST_BYTES = 512 * 2**20
SUFFIX = ".state"


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a state was taken: behind the record `record_id`, which lies at `entry` of its topic.

    `offset` is that record's, `latest_ms` the newest append time of all that was folded.
    """

    entry: int
    offset: int
    latest_ms: int
    record_id: str
    records: int
    ignored: int

    def lies_within(self, moment: Moment) -> bool:
        """Says whether all that was folded had been written by a moment."""
        if moment.offset is not None:
            return self.offset <= moment.offset
        return moment.time_ms is None or self.latest_ms <= moment.time_ms


@dataclass(frozen=True, slots=True)
class Kept:
    """A folder of states, of all streams that were looked into on this machine."""

    folder: Path

    def nearest(self, place: TopicPartition, stream_id: str, moment: Moment) -> tuple[Mark, Stream] | None:
        """Gives the newest state that lies within a moment; None if there is none that is whole."""
        for path in sorted(self._folder(place, stream_id).glob(f"*{SUFFIX}"), reverse=True):
            mark = _mark(path)
            if mark is not None and mark.lies_within(moment):
                stream = _state(path)
                if stream is not None and stream.stream_id == stream_id:
                    return mark, stream
        return None

    def keep(self, place: TopicPartition, mark: Mark, stream: Stream) -> None:
        """Writes a state; a disk that can't take it is as good as none."""
        folder = self._folder(place, stream.stream_id)
        path = folder / f"{mark.offset:012d}{SUFFIX}"
        state = pack(stream)
        head = {"fold": fold_name(), "sha256": sha256(state).hexdigest(), "mark": asdict(mark)}
        draft = path.with_suffix(f".{os.getpid()}")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_bytes(json.dumps(head).encode() + b"\n" + state)
            draft.replace(path)
            self._make_room()
        except OSError:
            draft.unlink(missing_ok=True)

    def _folder(self, place: TopicPartition, stream_id: str) -> Path:
        return self.folder / sha256(f"{place[0]} {place[1]} {stream_id}".encode()).hexdigest()[:20]

    def _make_room(self) -> None:
        """Removes the oldest files beyond MOST_BYTES."""
        left = MOST_BYTES
        for _, size, path in sorted(_sizes(self.folder), reverse=True):
            left -= size
            if left < 0:
                path.unlink(missing_ok=True)


def mark_of(record: Record, entry: int, latest_ms: int, records: int, ignored: int) -> Mark:
    """Gives the mark behind a record."""
    return Mark(entry, record.offset, latest_ms, record.envelope.id, records, ignored)


def _sizes(folder: Path) -> Iterator[tuple[int, int, Path]]:
    for path in folder.glob(f"*/*{SUFFIX}"):
        found = path.stat()
        yield found.st_mtime_ns, found.st_size, path


def _mark(path: Path) -> Mark | None:
    """Reads the first line of a file; None if it is of another fold, or unreadable."""
    try:
        with path.open("rb") as file:
            head: dict[str, Any] = json.loads(file.readline())
        return Mark(**head["mark"]) if head["fold"] == fold_name() else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


def _state(path: Path) -> Stream | None:
    try:
        first, _, state = path.read_bytes().partition(b"\n")
        whole = json.loads(first)["sha256"] == sha256(state).hexdigest()
        return load(state, AGGREGATES) if whole else None
    except (OSError, ValueError, LookupError, ValidationError):
        return None
