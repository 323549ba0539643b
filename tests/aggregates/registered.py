"""Adds the example aggregate to the registry of this process, and removes it again."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

from tests.aggregates.repeat.aggregate import REPEAT
from trackside.aggregates.registry import AGGREGATES, CODEC


@contextmanager
def repeats_registered() -> Iterator[None]:
    """Adds the type for the duration of the block: the one thing that is done for it outside its folder."""
    fields = [
        (each, {name: copy(value) for name, value in vars(each).items()}) for each in (CODEC, AGGREGATES)
    ]
    AGGREGATES.add(REPEAT)
    try:
        yield
    finally:
        for each, before in fields:
            vars(each).update(before)
        AGGREGATES.codec = CODEC
