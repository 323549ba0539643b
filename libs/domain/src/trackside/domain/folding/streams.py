"""All streams that a reader holds, and how far it has folded each partition."""

import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from pydantic import TypeAdapter

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.envelope.trusted_keys import Trust
from trackside.domain.folding.aggregate import Aggregates
from trackside.domain.folding.fold import fold
from trackside.domain.outcome import Outcome
from trackside.domain.streams.parking import Released
from trackside.domain.streams.stream import Stream

MAX_IDLE_IN_MEMORY = 1_000
"""How many streams stay in memory of which nothing runs: the most recently written ones."""


@dataclass(slots=True)
class Streams:
    """Streams by id, of any of the `aggregates`; `positions[partition]` is the next offset to fold.

    With a store to spill to (`spilled`), streams of which nothing runs leave the memory when `spill_idle` is
    called: those that hold only refused commands, and those that are over. They come back unchanged when a
    record or `find` needs them.

    An event in a partition that is not its stream's has no effect; `partitions` is their number, 0 if only
    one of them is read. `on_released` is called when a parked stream goes on: then the records of those in
    `released` are to be read again, and given to `fold_again` up to `positions`. Until then the records of
    these streams that come have no effect yet.
    """

    aggregates: Aggregates
    by_id: dict[str, Stream] = field(default_factory=dict)
    positions: dict[int, int] = field(default_factory=dict)
    overtaken: int = 0
    partitions: int = 0
    on_released: Callable[[], None] | None = None
    released: dict[str, Stream] = field(default_factory=dict)
    spilled: MutableMapping[str, bytes] | None = None
    _idle: dict[str, None] = field(default_factory=dict)
    _trust: dict[int, Trust] = field(default_factory=dict)
    """The keys that each partition trusts, of those that trust any."""

    def __post_init__(self) -> None:
        """Lists the initial streams that may be spilled."""
        self._idle = {name: None for name, stream in self.by_id.items() if _is_idle(stream)}
        for stream in self.by_id.values():
            self._note(stream)

    def adopt(self, stream: Stream) -> None:
        """Takes over a stream from a snapshot."""
        self.by_id[stream.stream_id] = stream
        self._note(stream)
        if _is_idle(stream):
            self._idle[stream.stream_id] = None

    def find(self, stream_id: str) -> Stream | None:
        """Returns a stream, loaded if it was spilled; None if there is none."""
        stream = self.by_id.get(stream_id)
        if stream is None and self.spilled:
            state = self.spilled.pop(stream_id, None)
            if state is not None:
                stream = load(state, self.aggregates)
                self.adopt(stream)
        return stream

    def key_of(self, stream_id: str) -> str:
        """Returns the public key of a stream; empty if it is not encrypted, or has not begun."""
        stream = self.find(stream_id)
        return "" if stream is None else stream.public_key

    def fold(self, record: Record) -> tuple[Stream, Outcome]:
        """Folds a record of the events topic into its stream, in order, each offset once."""
        self.positions[record.partition] = record.offset + 1
        if self._trust:
            record.trust = self._trust.get(record.partition)
        stream_id = record.envelope.stream
        stream = self.by_id.get(stream_id) or self.find(stream_id)
        if stream is None:
            stream = Stream(stream_id, record.partition)
            if self.partitions and partition_of(stream_id, self.partitions) != record.partition:
                return stream, Outcome.OVERTAKEN
            self.by_id[stream_id] = stream
        elif stream.partition != record.partition:
            return stream, Outcome.OVERTAKEN
        if stream.released is not None:
            return stream, Outcome.PARKED
        outcome = fold(stream, record, self.aggregates)
        if outcome is not Outcome.APPLIED:
            self.overtaken += 1
            if stream.rules == 0 and stream.parked is None:
                del self.by_id[stream_id]
        elif stream.trust is not None or stream.released is not None:
            self._note(stream)
        elif _is_idle(stream):
            self._idle.pop(stream_id, None)
            self._idle[stream_id] = None
        return stream, outcome

    def fold_again(self, record: Record) -> tuple[Stream, Outcome]:
        """Folds a record of a released stream that was read again, in order.

        The outcome is parked for what has counted when it came, and for all once another record parks it.
        """
        stream = self.released[record.envelope.stream]
        released = stream.released
        assert released is not None
        if self._trust:
            record.trust = self._trust.get(record.partition)
        released.read_to = record.offset
        outcome = fold(stream, record, self.aggregates)
        if stream.released is None:  # it was forgotten, and goes on from there as any other
            stream.released = released
        return stream, outcome

    def have_read_again(self, reading: Mapping[str, Released], end: int) -> list[Stream]:
        """Notes that streams were read again up to an offset; returns those that go on now.

        `reading` has what each was released by when that began: one that was released once more is read
        once more.
        """
        found: list[Stream] = []
        for name, released in reading.items():
            stream = self.released.get(name)
            if stream is None or stream.released is not released:
                continue
            released.read_to = max(released.read_to, end - 1)
            if end >= self.positions.get(stream.partition, 0):
                stream.released = None
                del self.released[name]
                found.append(stream)
                if _is_idle(stream):
                    self._idle[name] = None
        return found

    def trust_in(self, partition: int) -> Trust | None:
        """Returns the keys that a partition trusts, None if nobody has made any known there."""
        return self._trust.get(partition)

    def _note(self, stream: Stream) -> None:
        if stream.trust is not None:
            self._trust[stream.partition] = stream.trust
        if stream.released is not None:
            self.released[stream.stream_id] = stream
            if self.on_released is not None:
                self.on_released()

    def spill_idle(self) -> None:
        """Spills all but the newest idle streams; no caller may hold one of them meanwhile."""
        if self.spilled is None:
            return
        while len(self._idle) > MAX_IDLE_IN_MEMORY:
            stream_id = next(iter(self._idle))
            del self._idle[stream_id]
            stream = self.by_id.get(stream_id)
            if stream is not None and _is_idle(stream):
                self.spilled[stream_id] = pack(stream)
                del self.by_id[stream_id]


def _is_idle(stream: Stream) -> bool:
    """Returns whether nothing of a stream runs or is asked: only a record or a time limit changes it."""
    root = stream.root
    if stream.trust is not None or stream.released is not None:
        return False
    return (root is None or root.over) and not stream.unanswered


_KIND = re.compile(rb'\{"stream_id": ?"(?:[^"\\]|\\.)*", ?"partition": ?\d+, ?"kind": ?"(\w+)"')
"""The beginning of a state: the class of the root must be known before the whole can be read."""
_ADAPTERS: dict[type[Any], TypeAdapter[Stream]] = {}


def state_adapter(root: type[Any]) -> TypeAdapter[Stream]:
    """Returns what reads and writes the state of streams with a root of this class, NoneType for none."""
    if root not in _ADAPTERS:
        _ADAPTERS[root] = TypeAdapter(Stream[root])  # type: ignore[valid-type]
    return _ADAPTERS[root]


def dump(stream: Stream) -> bytes:
    """Writes the whole state of a stream as JSON, to be compared."""
    return state_adapter(type(stream.root)).dump_json(stream)


def pack(stream: Stream) -> bytes:
    """Writes the state of a stream as JSON, to be kept; default values are left out.

    Most of an ended task is default: this takes two thirds of the bytes, and of the time to read them.
    """
    return state_adapter(type(stream.root)).dump_json(stream, exclude_defaults=True)


def load(state: bytes | str, aggregates: Aggregates) -> Stream:
    """Reads what `dump` or `pack` wrote. Raises ValueError if it can't, KeyError for an unknown kind."""
    text = state.encode() if isinstance(state, str) else state
    found = _KIND.match(text)
    root = NoneType if found is None else aggregates.by_kind[found[1].decode()].state
    return state_adapter(root).validate_json(text)
