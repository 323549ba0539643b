import gc
import platform
import resource
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackside.eventlog.garbage import GROWTH, collecting_seldom, give_back_freed_memory


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    """Keeps what other tests have frozen out of these, and freezes it again."""
    frozen = gc.get_freeze_count()
    callbacks = list(gc.callbacks)
    yield
    assert gc.callbacks == callbacks
    if frozen:
        gc.freeze()


class Node:
    def __init__(self) -> None:
        self.own = self


def test_what_a_full_pass_has_kept_is_not_traversed_by_the_next_one() -> None:
    with collecting_seldom():
        kept = [[number] for number in range(1_000)]
        assert any(each is kept for each in gc.get_objects())
        gc.collect()
        assert not any(each is kept for each in gc.get_objects())


@pytest.mark.thorough
def test_a_cycle_that_outlived_a_pass_is_found_by_one_of_the_next_or_after_it() -> None:
    with collecting_seldom():
        node, other = Node(), Node()
        seen, seen_after = weakref.ref(node), weakref.ref(other)
        gc.collect()
        del node
        for _ in range(GROWTH - 2):
            gc.collect()
        assert seen() is not None
        gc.collect()
        assert seen() is None
        gc.collect()
    del other
    gc.collect()
    assert seen_after() is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries give it back themselves")
def test_memory_that_was_freed_below_memory_in_use_is_given_back() -> None:
    blocks = [bytearray(100_000) for _ in range(1_000)]
    last = blocks.pop()
    blocks.clear()
    before = resident_bytes()
    give_back_freed_memory()
    assert before - resident_bytes() > 50_000_000
    del last


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
