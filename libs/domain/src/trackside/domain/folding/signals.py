"""What schedules may wait for in a stream: that it is over, or that a model has a new version.

A signal is a part of the state, not an event: whoever waits compares its key with the one seen before. So
nothing is lost when nobody looks for a while; of several changes in between only the last one is seen.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from trackside.contracts.envelope.message import Json
from trackside.domain.proposal import parse_cause
from trackside.domain.streams.stream import Stream

MAX_PARENTS = 100


class Signal(NamedTuple):
    """One thing that others may wait for."""

    name: str
    """What it is: `ended`, `stage.production`."""
    key: str
    """Differs each time that it happens: the number of a version."""
    values: Json
    """What is known of it, by name."""
    origin: str | None = None
    """The stream whose work it is, None for this one; empty if a person has done it."""
    offset: int | None = None
    """Offset of its event; None: the last one that changed the aggregate."""


class HasSchedules(Protocol):
    """What knows the schedules that a stream was begun by."""

    def schedules_of(self, root: Any) -> list[str]:
        """Returns the schedules that led to a stream, its own one first."""
        ...


def schedules_behind(
    stream_id: str,
    find: Callable[[str], Stream | None],
    aggregate_of: Callable[[Stream], HasSchedules | None],
) -> list[str]:
    """Returns the schedules that led to a stream, through the streams that it is a child of."""
    found: dict[str, None] = {}
    for stream in _with_parents(stream_id, find):
        aggregate = aggregate_of(stream)
        if aggregate is not None and stream.root is not None:
            found |= dict.fromkeys(aggregate.schedules_of(stream.root))
    return list(found)


def _with_parents(stream_id: str, find: Callable[[str], Stream | None]) -> Iterator[Stream]:
    for _ in range(MAX_PARENTS):
        stream = find(stream_id)
        if stream is None:
            return
        yield stream
        parents = (parse_cause(command_id) for command_id in stream.commands)
        parent = next((cause for cause in parents if cause is not None), None)
        if parent is None or parent[0] == stream_id:
            return
        stream_id = parent[0]


class GaugeReading(NamedTuple):
    """One number as it is now."""

    name: str
    """The name of a gauge of `trackside.telemetry.names`."""
    labels: tuple[str, ...]
    """The values of its labels, the first of which is the id of the stream."""
    value: float
    lasting: bool = False
    """Whether it stays when it is no longer read, until its stream is over: the result of something."""
