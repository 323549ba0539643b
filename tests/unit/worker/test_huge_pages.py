"""Which memory goes into huge pages, and that it holds the same afterwards."""

import platform
import subprocess
import sys

import pytest

from trackside.worker.child.process.huge_pages import HUGE_PAGE_BYTES, huge_page_ranges

MIB = 1_048_576
COLLAPSE = """
from pathlib import Path
from trackside.worker.child.process.huge_pages import collapse

octets = bytearray(range(256)) * (64 * 4096)
before = hash(bytes(octets))
moved = collapse()
assert hash(bytes(octets)) == before
rollup = dict(line.split(":") for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
print(moved, int(rollup["AnonHugePages"].split()[0]) * 1024)
"""


def _mapping(begin: int, end: int, permissions: str = "rw-p", name: str = "") -> str:
    return f"{begin:x}-{end:x} {permissions} 00000000 00:00 0 {name}"


def test_a_range_is_cut_to_whole_huge_pages() -> None:
    mapping = _mapping(MIB, 2 * HUGE_PAGE_BYTES + MIB, name="[heap]")
    assert huge_page_ranges([mapping]) == [(HUGE_PAGE_BYTES, 2 * HUGE_PAGE_BYTES)]
    assert huge_page_ranges([_mapping(MIB, HUGE_PAGE_BYTES + MIB)]) == []


@pytest.mark.parametrize(
    ("permissions", "name"),
    [("r--p", ""), ("rw-s", ""), ("rw-p", "/usr/lib/libtorch.so"), ("rw-p", "[stack]")],
)
def test_only_private_anonymous_memory_that_can_be_written_is_moved(permissions: str, name: str) -> None:
    assert huge_page_ranges([_mapping(0, 8 * HUGE_PAGE_BYTES, permissions, name)]) == []


@pytest.mark.thorough
@pytest.mark.skipif(
    sys.platform != "linux" or tuple(map(int, platform.release().split(".")[:2])) < (6, 1),
    reason="MADV_COLLAPSE needs Linux 6.1",
)
def test_memory_holds_the_same_in_huge_pages() -> None:
    command = [sys.executable, "-c", COLLAPSE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    moved, huge = map(int, done.stdout.split())
    if moved == 0:
        pytest.skip("the kernel has no room for huge pages, or was built without them")
    assert huge > 0
