"""Old entries of a long simulation are packed, or forgotten; the times of its tasks."""

import pytest

from tests.unit.domain.given import Told, adopted, assigned, begun, ended, submitted, suggested, task_queued
from trackside.contracts.envelope.message import Event
from trackside.eventlog.log import Entry
from trackside.simulation.statistics import TaskTimes, growth_of
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
    assert (len(store), list(store)) == (33, entries)
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


def times(*begins: Event) -> tuple[list[int], int]:
    told: Told = task_queued()
    told.tell(assigned())
    told.tell(*begins)
    incarnation = told.task().attempt.incarnations[-1]
    told.tell(suggested(1), submitted(1))
    told.tell(ended(incarnation=incarnation))
    found = TaskTimes()
    for record in told.records:
        found.note(record)
    return found.queued_ms, found.used_ms


def test_an_attempt_runs_from_its_acceptance_or_adoption_on() -> None:
    assert times(adopted()) == times(begun())
    assert times(adopted())[1] > 0
    waited, ran = times(begun(), adopted())
    assert waited == times(begun())[0]
    assert ran > times(begun())[1]
