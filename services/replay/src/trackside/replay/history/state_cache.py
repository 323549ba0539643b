"""A cache of states of long streams on disk: a later query starts from the nearest one.

A file has a line with the position, a line with the keys that the partition trusts there, and the state.
It is used only if its digest matches, if it is of the same version of the fold, and if the record at its
position has the same id in the log. So nothing has to be invalidated: the log never changes, and states of
another log, release or stream are ignored.
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
from trackside.domain.folding.streams import load, pack
from trackside.domain.streams.stream import Stream
from trackside.eventlog.log import TopicPartition
from trackside.projections.past.snapshot_format import StatePosition
from trackside.projections.writing.snapshots import fold_name
from trackside.replay.history.point_in_time import PointInTime

CACHE_EVERY_RECORDS = 20_000
"""How many records there are between cached states: at most so many are folded by a query."""
MAX_BYTES = 512 * 2**20
SUFFIX = ".state"


def is_at_or_before(position: StatePosition, point: PointInTime) -> bool:
    """Returns whether all that was folded into a state had been written by a point in time."""
    if point.offset is not None:
        return position.offset <= point.offset
    return point.time_ms is None or position.latest_ms <= point.time_ms


@dataclass(frozen=True, slots=True)
class StoredState:
    """A stream as it was at a position, and the stream of the keys that its partition trusted by then."""

    position: StatePosition
    stream: Stream
    keys: Stream | None = None


@dataclass(frozen=True, slots=True)
class StateCache:
    """A folder of states, of all streams that were queried on this machine."""

    folder: Path

    def nearest(self, place: TopicPartition, stream_id: str, point: PointInTime) -> StoredState | None:
        """Returns the newest valid state that is not after a point in time, None if there is none."""
        for path in sorted(self._folder(place, stream_id).glob(f"*{SUFFIX}"), reverse=True):
            position = _read_position(path)
            if position is not None and is_at_or_before(position, point):
                states = _read_states(path)
                if states is not None and states[0].stream_id == stream_id:
                    return StoredState(position, *states)
        return None

    def put(self, place: TopicPartition, stored: StoredState) -> None:
        """Writes a state; errors of the disk are ignored."""
        folder = self._folder(place, stored.stream.stream_id)
        path = folder / f"{stored.position.offset:012d}{SUFFIX}"
        state = (b"" if stored.keys is None else pack(stored.keys)) + b"\n" + pack(stored.stream)
        head = {"fold": fold_name(), "sha256": sha256(state).hexdigest(), "mark": asdict(stored.position)}
        draft = path.with_suffix(f".{os.getpid()}")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_bytes(json.dumps(head).encode() + b"\n" + state)
            draft.replace(path)
            self._evict()
        except OSError:
            draft.unlink(missing_ok=True)

    def _folder(self, place: TopicPartition, stream_id: str) -> Path:
        return self.folder / sha256(f"{place[0]} {place[1]} {stream_id}".encode()).hexdigest()[:20]

    def _evict(self) -> None:
        """Removes the oldest files beyond MAX_BYTES."""
        left = MAX_BYTES
        for _, size, path in sorted(_sizes(self.folder), reverse=True):
            left -= size
            if left < 0:
                path.unlink(missing_ok=True)


def _sizes(folder: Path) -> Iterator[tuple[int, int, Path]]:
    for path in folder.glob(f"*/*{SUFFIX}"):
        found = path.stat()
        yield found.st_mtime_ns, found.st_size, path


def _read_position(path: Path) -> StatePosition | None:
    """Reads the first line of a file; None if it is of another fold, or unreadable."""
    try:
        with path.open("rb") as file:
            head: dict[str, Any] = json.loads(file.readline())
        return StatePosition(**head["mark"]) if head["fold"] == fold_name() else None
    except (OSError, ValueError, TypeError, LookupError):
        return None


def _read_states(path: Path) -> tuple[Stream, Stream | None] | None:
    try:
        first, _, states = path.read_bytes().partition(b"\n")
        if json.loads(first)["sha256"] != sha256(states).hexdigest():
            return None
        keys, _, state = states.partition(b"\n")
        return load(state, AGGREGATES), load(keys, AGGREGATES) if keys else None
    except (OSError, ValueError, LookupError, ValidationError):
        return None
