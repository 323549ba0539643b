"""What a decision may read besides its own stream. The log judges it: what was read may be old."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from trackside.domain.fleet.capabilities import Capabilities
from trackside.domain.pipelines.value_schemas import SchemaCosts
from trackside.domain.streams.stream import Stream


def _none(stream_id: str) -> Stream | None:
    return None


def _nothing(key: str) -> Iterable[Stream]:
    return ()


class Lookup(NamedTuple):
    """What the fleet can do, and other streams."""

    capabilities: Capabilities = Capabilities()
    """What the fleet has to give now."""
    find: Callable[[str], Stream | None] = _none
    """Returns a stream by its id; None if there is none."""
    having: Callable[[str], Iterable[Stream]] = _nothing
    """Returns the streams that have said, by `AggregateType.index_keys`, to have something by a key."""
    schema_costs: SchemaCosts | None = None
    """What the command that is decided, with its children, costs by its JSON Schemas."""


NO_LOOKUP = Lookup()
"""Knows nothing."""
