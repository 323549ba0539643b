"""The entries of one partition of a long simulation: the newest as objects, older ones packed or dropped.

An entry as an object takes 3 KB, a packed one 0.6 KB: of 100,000 trials there are a million.
"""

from collections.abc import Iterator, Sequence
from typing import overload

from trackside.eventlog.log import Entry, TopicPartition

UNPACKED_ENTRIES = 4_000
"""How many entries are kept as objects, at least: readers are never further behind."""
_BETWEEN = b"\0"
_NONE = b"\1"


class SegmentStore(Sequence[Entry]):
    """A sequence of entries; with `drops_old` older ones are dropped, and read as entries without bytes."""

    def __init__(self, place: TopicPartition, *, drops_old: bool) -> None:
        self.octets = 0
        self._place = place
        self._drops_old = drops_old
        self._packed: list[bytes] = []
        self._recent: list[Entry] = []

    def append(self, entry: Entry) -> None:
        """Adds the next entry."""
        self.octets += size_of(entry)
        self._recent.append(entry)
        if len(self._recent) >= 2 * UNPACKED_ENTRIES:
            old, self._recent = self._recent[:UNPACKED_ENTRIES], self._recent[UNPACKED_ENTRIES:]
            self._packed += [b"" if self._drops_old else _packed(entry) for entry in old]

    def __len__(self) -> int:
        return len(self._packed) + len(self._recent)

    @overload
    def __getitem__(self, at: int) -> Entry: ...

    @overload
    def __getitem__(self, at: slice) -> list[Entry]: ...

    def __getitem__(self, at: int | slice) -> Entry | list[Entry]:
        if isinstance(at, slice):
            first, end, _ = at.indices(len(self))
            packed = len(self._packed)
            old = [self[number] for number in range(first, min(end, packed))]
            return old + self._recent[max(0, first - packed) : max(0, end - packed)]
        number = range(len(self))[at]
        if number >= len(self._packed):
            return self._recent[number - len(self._packed)]
        return _unpacked(self._place, number, self._packed[number])

    def __iter__(self) -> Iterator[Entry]:
        return (self[number] for number in range(len(self)))


def size_of(entry: Entry) -> int:
    """Returns the bytes of key, value and headers."""
    headers = sum(len(name) + len(value or b"") for name, value in entry.headers)
    return len(entry.key or b"") + len(entry.value or b"") + headers


def _packed(entry: Entry) -> bytes:
    """Packs an entry; what the simulated services write is JSON and text, without NUL."""
    parts = [
        str(entry.append_time_ms).encode(),
        *(_NONE if o is None else o for o in (entry.key, entry.value)),
    ]
    for name, value in entry.headers:
        parts += (name.encode(), _NONE if value is None else value)
    return _BETWEEN.join(parts)


def _unpacked(place: TopicPartition, offset: int, packed: bytes) -> Entry:
    if not packed:
        return Entry(*place, offset, 0, None, b"", ())
    time_ms, *parts = packed.split(_BETWEEN)
    key, value, *pairs = (None if part == _NONE else part for part in parts)
    headers = [((name or b"").decode(), octets) for name, octets in zip(pairs[::2], pairs[1::2], strict=True)]
    return Entry(*place, offset, int(time_ms), key, value, headers)
