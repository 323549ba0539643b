import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.small_disk import small_disk
from trackside.eventlog.reactor.spill import SpillStore

ROOT = Path(__file__).parents[3]

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


FILLED = """
import pathlib, random, sys
from tests.small_disk import SmallDisk
from trackside.eventlog.reactor.spill import SpillStore

disk, store, expected = SmallDisk(pathlib.Path(sys.argv[1])), SpillStore(), {}

def put(first, last):
    for number in range(first, last):
        store[str(number)] = expected[str(number)] = random.randbytes(2_000)

def check():
    assert dict(store) == expected and len(store) == len(expected)

put(0, 1_000)
check()
disk.fill()
put(1_000, 3_000)
check()
assert store.pop("7") == expected.pop("7") and "7" not in store
disk.empty()
put(3_000, 4_000)
check()
"""


@pytest.mark.thorough
def test_without_room_on_disk_it_keeps_what_it_has_in_memory(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "90m") as disk:
        env = {**os.environ, "SQLITE_TMPDIR": str(disk.folder), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-P", "-c", FILLED, str(disk.folder)]
        ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("keeping in memory") == 1, "it is said once"
