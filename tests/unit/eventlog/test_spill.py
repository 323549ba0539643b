"""The spill store is a mapping like any other."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.eventlog.spill import SpillStore

NAMES = st.sampled_from(["a", "b", "commands/trackside.commands-0-1", "é"])
STEPS = st.lists(st.tuples(NAMES, st.one_of(st.none(), st.binary(max_size=50))), max_size=30)


@given(STEPS)
def test_it_holds_what_a_dict_holds(steps: list[tuple[str, bytes | None]]) -> None:
    store, expected = SpillStore(), dict[str, bytes]()
    for name, state in steps:
        if state is None:
            assert store.pop(name, None) == expected.pop(name, None)
        else:
            store[name] = expected[name] = state
        assert (len(store), dict(store)) == (len(expected), expected)
    store.close()
    assert not store


def test_without_room_on_disk_it_keeps_what_it_has_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: SpillStore) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    store = SpillStore()
    monkeypatch.setattr(SpillStore, "_database", full)
    store["a"] = b"1"
    assert store.pop("a") == b"1"
    assert "a" not in store
