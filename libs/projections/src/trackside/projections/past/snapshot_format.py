"""The bytes of one snapshot of the past: a line of JSON, an index of streams, and their packed states.

It has the streams that have changed since the snapshot before it, so the state of a stream at an offset is in
the newest snapshot before that which has the stream. A stream whose state was dropped stays in the index.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from pydantic import ValidationError

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.streams.keys import KEYS_STREAM
from trackside.domain.folding.streams import load
from trackside.domain.streams.stream import Stream
from trackside.projections.writing.snapshots import fold_name

LEVEL = 1
"""The level of compression: the fastest, a tenth of the bytes."""


class DamagedSnapshotError(Exception):
    """The bytes of a snapshot are not those that were written."""


@dataclass(frozen=True, slots=True)
class StatePosition:
    """The position of a stored state: after the record `record_id`, which is entry `entry` of its topic.

    `offset` is that record's, `latest_ms` the newest append time of all that was folded.
    """

    entry: int
    offset: int
    latest_ms: int
    record_id: str
    records: int
    ignored: int


@dataclass(frozen=True, slots=True)
class PackedState:
    """A stream in a snapshot: its first record, and its compressed state, empty if that was dropped."""

    begin: int
    begin_id: str
    position: StatePosition
    packed: bytes

    def load(self) -> Stream:
        """Returns the state; raises DamagedSnapshotError."""
        return load_packed(self.packed)


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """What a snapshot is of: the offsets from `since` on before `position` of a partition.

    The last record before `position` is `record_id` at offset `entry`, -1 if there is none. `state_bytes` is
    the size of the states before they were compressed. `keys` is the stream of the keys that the partition
    trusts, empty if it trusts none.
    """

    fold: str
    since: int
    position: int
    entry: int
    record_id: str
    state_bytes: int
    index_bytes: int
    index_sha256: str
    sha256: str
    keys: str = ""


@dataclass(frozen=True, slots=True)
class IndexedStream:
    """A stream in the index of a snapshot: its state is `length` bytes from `start` on; 0: it was dropped."""

    begin: int
    begin_id: str
    position: StatePosition
    start: int
    length: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SnapshotSpan:
    """The place of a snapshot in its partition, and the last record before it."""

    since: int
    position: int
    entry: int
    record_id: str
    state_bytes: int


def encode_snapshot(span: SnapshotSpan, streams: Mapping[str, PackedState]) -> bytes:
    """Returns the bytes of a snapshot."""
    index, states, start = {}, [], 0
    for name, stream in streams.items():
        digest = sha256(stream.packed).hexdigest()[:16] if stream.packed else ""
        place = stream.position
        position = [
            *(place.entry, place.offset, place.latest_ms),
            *(place.record_id, place.records, place.ignored),
        ]
        index[name] = [stream.begin, stream.begin_id, position, start, len(stream.packed), digest]
        states.append(stream.packed)
        start += len(stream.packed)
    packed_index = zlib.compress(json.dumps(index).encode(), LEVEL)
    body = packed_index + b"".join(states)
    head = SnapshotHead(
        fold=fold_name(),
        since=span.since,
        position=span.position,
        entry=span.entry,
        record_id=span.record_id,
        state_bytes=span.state_bytes,
        index_bytes=len(packed_index),
        index_sha256=sha256(packed_index).hexdigest(),
        sha256=sha256(body).hexdigest(),
        keys=next((name for name in streams if name.startswith(KEYS_STREAM)), ""),
    )
    return json.dumps(asdict(head)).encode() + b"\n" + body


def decode_head(octets: bytes) -> tuple[SnapshotHead, int]:
    """Reads the first line; returns it with the number of its bytes. Raises DamagedSnapshotError."""
    line, end, _ = octets.partition(b"\n")
    try:
        values: dict[str, Any] = json.loads(line)
        head = SnapshotHead(**values)
    except (ValueError, TypeError) as error:
        raise DamagedSnapshotError("its first line is not whole") from error
    if not end or not isinstance(head.index_bytes, int) or not isinstance(head.position, int):
        raise DamagedSnapshotError("its first line is not whole")
    return head, len(line) + 1


def decode_index(head: SnapshotHead, octets: bytes) -> dict[str, IndexedStream]:
    """Reads the index from its bytes; raises DamagedSnapshotError."""
    if len(octets) != head.index_bytes or sha256(octets).hexdigest() != head.index_sha256:
        raise DamagedSnapshotError("its index is not what was written")
    rows: dict[str, Any] = json.loads(zlib.decompress(octets))
    return {
        name: IndexedStream(begin, begin_id, StatePosition(*position), start, length, digest)
        for name, (begin, begin_id, position, start, length, digest) in rows.items()
    }


def decode_state(stream: IndexedStream, octets: bytes) -> Stream:
    """Reads a state from its bytes; raises DamagedSnapshotError."""
    if len(octets) != stream.length or sha256(octets).hexdigest()[:16] != stream.sha256:
        raise DamagedSnapshotError("a state in it is not what was written")
    return load_packed(octets)


def load_packed(octets: bytes) -> Stream:
    """Returns a compressed state; raises DamagedSnapshotError."""
    try:
        return load(zlib.decompress(octets), AGGREGATES)
    except (zlib.error, ValueError, LookupError, ValidationError) as error:
        raise DamagedSnapshotError("a state in it can't be read") from error


def decode_snapshot(octets: bytes) -> tuple[SnapshotHead, dict[str, PackedState]]:
    """Reads a whole snapshot and checks all of its bytes; raises DamagedSnapshotError."""
    head, begin = decode_head(octets)
    body = memoryview(octets)[begin:]
    if sha256(body).hexdigest() != head.sha256:
        raise DamagedSnapshotError("its bytes are not those that were written")
    states = begin + head.index_bytes
    return head, {
        name: PackedState(
            stream.begin,
            stream.begin_id,
            stream.position,
            octets[states + stream.start : states + stream.start + stream.length],
        )
        for name, stream in decode_index(head, octets[begin:states]).items()
    }
