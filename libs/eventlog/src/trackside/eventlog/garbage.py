"""Memory of a process whose state grows: full collections are rare, and what is freed is given back."""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

GROWTH = 4
"""How many full passes come before one that traverses all objects, and as many times more before the next."""
MOST_PASSES = 1_000
"""How many there are at most."""
THRESHOLDS = 700, 10, 10
"""Python's own: after how many new objects a pass begins, and after how many passes one that does more."""


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Takes what a full pass has kept out of the next ones; seldom one traverses all objects.

    Folded state holds no cycles: a pass over all of it finds nothing and stops the process, for 0.4 s with
    500,000 objects. Passes are counted, since each is for about as many new objects: to count what is kept
    takes as long as a pass.
    """
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    gc.freeze()
    left = until_next = GROWTH

    def note(phase: str, info: dict[str, Any]) -> None:
        nonlocal left, until_next
        if info["generation"] != 2:
            return
        if phase == "stop":
            gc.freeze()
            return
        left -= 1
        if not left:
            left = until_next = min(until_next * GROWTH, MOST_PASSES)
            gc.unfreeze()

    gc.callbacks.append(note)
    try:
        yield
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
        gc.unfreeze()


def give_back_freed_memory() -> None:
    """Returns memory that is free back to the system, where the C library is glibc; others keep it.

    glibc keeps what lies below memory in use. After a large text was parsed that is several times its size.
    """
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)
