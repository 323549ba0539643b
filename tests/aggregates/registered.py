"""Adds the example aggregate to the registry of this process, and removes it again."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

from tests.aggregates.repeat.aggregate import REPEAT
from tests.aggregates.repeat.listing import RepeatListing
from trackside.aggregates.listings import LISTINGS
from trackside.aggregates.registry import AGGREGATES, CODEC


@contextmanager
def repeats_registered() -> Iterator[None]:
    """Adds the type and its listing for the duration of the block: all that is done outside its folder."""
    fields = [
        (each, {name: copy(value) for name, value in vars(each).items()}) for each in (CODEC, AGGREGATES)
    ]
    AGGREGATES.add(REPEAT)
    LISTINGS[REPEAT.kind] = RepeatListing()
    try:
        yield
    finally:
        for each, before in fields:
            vars(each).update(before)
        AGGREGATES.codec = CODEC
        del LISTINGS[REPEAT.kind]
