"""What begins anew in each process that this one forks.

`os.register_at_fork` can't be undone: it is called once in a process, and not for each object.
"""

import os
from functools import cache
from typing import Protocol
from weakref import WeakSet


class BeginsInFork(Protocol):
    """Holds locks or a state that a forked process must not share with the one that has forked it."""

    def begin_in_fork(self) -> None:
        """Begins anew, in the process that was forked."""


def follow_forks(each: BeginsInFork) -> None:
    """Gets `begin_in_fork` of an object called in every process that is forked while the object lives."""
    _followers().add(each)


@cache
def _followers() -> "WeakSet[BeginsInFork]":
    """Returns the objects that are called; the first call tells the interpreter."""
    found: WeakSet[BeginsInFork] = WeakSet()

    def begin() -> None:
        for each in list(found):
            each.begin_in_fork()

    os.register_at_fork(after_in_child=begin)  # noqa: TID251 - once in a process
    return found
