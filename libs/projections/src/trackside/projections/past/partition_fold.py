"""Folds a partition on from its snapshots; unlike a service it forgets no task, for a moment has them all."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.streams.commands import CommandReceived
from trackside.contracts.streams.keys import KEYS_STREAM
from trackside.contracts.streams.parking import UnknownRecord
from trackside.contracts.trust.encryption import EncryptedRecord
from trackside.contracts.wire.codec import UndecodableError
from trackside.domain.folding.fold import fold
from trackside.domain.folding.streams import pack
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import decode, stream_of
from trackside.eventlog.keys.noted_keys import NotedKeys
from trackside.eventlog.log import Entry
from trackside.projections.past.snapshot_format import LEVEL, PackedState, StatePosition


def begins_stream(record: Record) -> bool:
    """Returns whether a record is the first one of its stream that has an effect, if none came before it."""
    if not isinstance(record.message, CommandReceived | UnknownRecord | EncryptedRecord):
        return False
    stream = Stream(record.envelope.stream, record.partition)
    return fold(stream, record, AGGREGATES) in (Outcome.APPLIED, Outcome.PARKED)


def _passed_over(entry: Entry, error: UndecodableError) -> None:
    """Does nothing: that it can't be read was logged when it came."""


@dataclass(slots=True)
class FoldedStream:
    """A stream with all of its tasks, its first record, and where it is folded to."""

    stream: Stream
    begin: int
    begin_id: str
    position: StatePosition

    def fold(self, record: Record, entry: int) -> None:
        """Folds the next record."""
        ignored = fold(self.stream, record, AGGREGATES) is not Outcome.APPLIED
        before = self.position
        self.position = StatePosition(
            entry,
            record.offset,
            max(before.latest_ms, record.append_time_ms),
            record.envelope.id,
            before.records + 1,
            before.ignored + ignored,
        )


class PartitionFold:
    """The streams of a partition from a position on; those that do not change stay packed.

    `known` are the packed states of all streams at the beginning. `last` is the last record folded. The
    stream of the keys of the partition is taken each time, so the newest snapshot has it.
    """

    def __init__(self, partition: int, partitions: int, known: Mapping[str, PackedState]) -> None:
        self._partition, self._partitions = partition, partitions
        self._known = dict(known)
        self._touched: dict[str, FoldedStream | None] = {}
        self._idle: dict[str, FoldedStream] = {}
        self._keys = NotedKeys()
        for name, stream in known.items():
            if name.startswith(KEYS_STREAM):
                self._keys.adopt(stream.load())
        self.last: tuple[int, str] = (-1, "")

    def fold(self, entry: Entry) -> None:
        """Folds an entry of the partition, if it is one of ours."""
        record = self._keys.noted(entry, decode(entry))
        if record is None:
            return
        self.last = (entry.offset, record.envelope.id)
        stream_id = record.envelope.stream
        if stream_id.startswith(KEYS_STREAM):
            return
        if stream_id in self._touched:
            found = self._touched[stream_id]
        elif (found := self._find(stream_id, record)) is not None or stream_id in self._known:
            self._touched[stream_id] = found
        if found is None:
            return
        found.fold(record, entry.offset)

    def _find(self, stream_id: str, record: Record) -> FoldedStream | None:
        """Returns a stream as it was before a record; None if it has not begun, or its state is missing."""
        if (idle := self._idle.pop(stream_id, None)) is not None:
            return idle
        known = self._known.get(stream_id)
        if known is not None:
            if not known.packed:
                return None
            return FoldedStream(known.load(), known.begin, known.begin_id, known.position)
        if not begins_stream(record) or partition_of(stream_id, self._partitions) != self._partition:
            return None
        nowhere = StatePosition(-1, -1, 0, "", 0, 0)
        return FoldedStream(Stream(stream_id, self._partition), record.offset, record.envelope.id, nowhere)

    def released(self, entry: Entry) -> Stream | None:
        """Returns the stream of an entry that was folded, if it is to be read again since."""
        found = self._touched.get(stream_of(entry).decode("utf-8", "replace"))
        return None if found is None or found.stream.released is None else found.stream

    def fold_again(self, stream: Stream, entry: Entry) -> None:
        """Folds an entry of a released stream that was read again, in order; any other one has no effect."""
        released = stream.released
        if released is None or entry.offset <= released.read_to:
            return
        if stream_of(entry) == stream.stream_id.encode():
            record = decode(entry, _passed_over)
            if record is not None:
                released.read_to = entry.offset
                fold(stream, self._keys.checked(record), AGGREGATES)

    def take(self) -> tuple[dict[str, PackedState], int]:
        """Returns what has changed since the last call, packed, and the bytes before they were compressed."""
        taken: dict[str, PackedState] = {}
        size = 0
        for name, found in self._touched.items():
            if found is None:
                if (known := self._known.get(name)) is not None:
                    taken[name] = replace(known, packed=b"")
                continue
            state = pack(found.stream)
            size += len(state)
            packed = zlib.compress(state, LEVEL)
            taken[name] = PackedState(found.begin, found.begin_id, found.position, packed)
        if (keys := self._keys.stream(self._partition)) is not None:
            state = pack(keys)
            size += len(state)
            place = StatePosition(keys.last_offset, keys.last_offset, 0, "", 0, 0)
            taken[keys.stream_id] = PackedState(keys.first_offset, "", place, zlib.compress(state, LEVEL))
        self._idle = {name: found for name, found in self._touched.items() if found is not None}
        self._touched = {}
        self._known |= taken
        return taken, size
