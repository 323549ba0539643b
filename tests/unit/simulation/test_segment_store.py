"""Old entries of a long simulation are packed, and come out as they went in; heartbeats are forgotten."""

import pytest

from trackside.eventlog.log import Entry
from trackside.simulation.statistics import growth_of
from trackside.simulation.virtual import segment_store
from trackside.simulation.virtual.segment_store import SegmentStore, size_of

PLACE = ("trackside.events", 2)


def entry(offset: int) -> Entry:
    key = None if offset % 3 == 0 else f"s-{offset}".encode()
    value = None if offset == 7 else b'{"text":"\\u0000"}'
    return Entry(*PLACE, offset, 1000 + offset, key, value, [("ce_id", b"%d" % offset), ("traceparent", b"")])


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_store, "UNPACKED_ENTRIES", 5)


def test_entries_come_out_as_they_went_in() -> None:
    store, entries = SegmentStore(PLACE, drops_old=False), [entry(offset) for offset in range(33)]
    for one in entries:
        store.append(one)
    assert len(store) == 33
    assert list(store) == entries
    assert [store[at] for at in (0, 7, 24, 25, 32, -1)] == [entries[at] for at in (0, 7, 24, 25, 32, -1)]
    for first in range(0, 33, 4):
        for end in range(first, 35, 3):
            assert store[first:end] == entries[first:end]
    with pytest.raises(IndexError):
        store[33]


def test_what_is_forgotten_keeps_its_place_and_counts_as_grown() -> None:
    store, entries = SegmentStore(PLACE, drops_old=True), [entry(offset) for offset in range(33)]
    for one in entries:
        store.append(one)
    assert (store[0].offset, store[0].value, store[32]) == (0, b"", entries[32])
    [grown] = growth_of({PLACE: store}).values()
    assert (grown.records, grown.octets) == (33, sum(map(size_of, entries)))
    assert growth_of({PLACE: entries}) == growth_of({PLACE: store})
