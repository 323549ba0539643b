"""Old entries of a long simulation are packed, and come out as they went in; heartbeats are forgotten."""

import pytest

from trackside.eventlog.log import Entry
from trackside.simulation.statistics import growth_of
from trackside.simulation.virtual import segment_store as virtual_shelf
from trackside.simulation.virtual.segment_store import Shelf, size_of

PLACE = ("trackside.events", 2)


def entry(offset: int) -> Entry:
    key = None if offset % 3 == 0 else f"s-{offset}".encode()
    value = None if offset == 7 else b'{"text":"\\u0000"}'
    return Entry(*PLACE, offset, 1000 + offset, key, value, [("ce_id", b"%d" % offset), ("traceparent", b"")])


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual_shelf, "FRESH", 5)


def test_entries_come_out_as_they_went_in() -> None:
    shelf, entries = Shelf(PLACE, forgets=False), [entry(offset) for offset in range(33)]
    for one in entries:
        shelf.append(one)
    assert len(shelf) == 33
    assert list(shelf) == entries
    assert [shelf[at] for at in (0, 7, 24, 25, 32, -1)] == [entries[at] for at in (0, 7, 24, 25, 32, -1)]
    for first in range(0, 33, 4):
        for end in range(first, 35, 3):
            assert shelf[first:end] == entries[first:end]
    with pytest.raises(IndexError):
        shelf[33]


def test_what_is_forgotten_keeps_its_place_and_counts_as_grown() -> None:
    shelf, entries = Shelf(PLACE, forgets=True), [entry(offset) for offset in range(33)]
    for one in entries:
        shelf.append(one)
    assert (shelf[0].offset, shelf[0].value, shelf[32]) == (0, b"", entries[32])
    [grown] = growth_of({PLACE: shelf}).values()
    assert (grown.records, grown.octets) == (33, sum(map(size_of, entries)))
    assert growth_of({PLACE: entries}) == growth_of({PLACE: shelf})
