"""What is laid aside on disk is a mapping like any other."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.eventlog.asleep import OnDisk

NAMES = st.sampled_from(["a", "b", "commands/trackside.commands-0-1", "é"])
STEPS = st.lists(st.tuples(NAMES, st.one_of(st.none(), st.binary(max_size=50))), max_size=30)


@given(STEPS)
def test_it_holds_what_a_dict_holds(steps: list[tuple[str, bytes | None]]) -> None:
    held, wanted = OnDisk(), dict[str, bytes]()
    for name, state in steps:
        if state is None:
            assert held.pop(name, None) == wanted.pop(name, None)
        else:
            held[name] = wanted[name] = state
        assert (len(held), dict(held)) == (len(wanted), wanted)
    held.close()
    assert not held


def test_without_room_on_disk_it_keeps_what_it_has_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: OnDisk) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    held = OnDisk()
    monkeypatch.setattr(OnDisk, "_database", full)
    held["a"] = b"1"
    assert held.pop("a") == b"1"
    assert "a" not in held
