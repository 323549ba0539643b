"""Processes that leave the stack little of the processors, as a busy machine does."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOOP = """
import os

parent = os.getppid()
while os.getppid() == parent:
    sum(range(1_000_000))
"""
"""A loop that ends with its parent, also if that is killed."""


@contextmanager
def busy_loops(count: int, *, apart: bool = False) -> Iterator[None]:
    """Runs so many busy loops during the block.

    The kernel may divide the processors among sessions first: all loops get as much then as one process of
    another session, unless each is `apart` in its own.
    """
    command = [sys.executable, "-c", LOOP]
    loops = [subprocess.Popen(command, start_new_session=apart) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()
