"""Recovery: folded state to start from, so that only the log after it is read."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.topics import Topic
from trackside.domain.folding.streams import Streams
from trackside.domain.streams.stream import Stream
from trackside.eventlog.log import Log, TopicPartition
from trackside.eventlog.reactor.serving import from_start
from trackside.eventlog.reactor.spill import SpillStore
from trackside.eventlog.retry import retry_with_timeout

logger = structlog.get_logger("trackside.eventlog")


@dataclass(frozen=True, slots=True)
class Recovered:
    """Streams as they were folded up to `positions[partition]`, the next offset to fold (0 if missing)."""

    streams: Sequence[Stream]
    positions: dict[int, int]


class SnapshotStore(Protocol):
    """Where snapshots of streams are stored."""

    async def load(self) -> Recovered | None:
        """Returns the newest snapshots; None if there are none to use: the log is read from its start."""
        ...


async def recover(store: SnapshotStore, log: Log, events: Topic) -> tuple[Streams, dict[TopicPartition, int]]:
    """Returns the initial streams and the positions to read events from.

    Without a usable snapshot these are no streams, and the beginning of the log. A snapshot of an offset
    beyond the end of the log belongs to another log and isn't used. Raises PreflightError if the log no
    longer begins at 0.
    """
    starts = await from_start(log, events)
    recovered = await store.load()
    if recovered is None:
        return _no_streams(events), starts
    ends = await retry_with_timeout(partial(log.ends, events.name), events.name)
    if any(position > ends.get(partition, 0) for partition, position in recovered.positions.items()):
        logger.warning("snapshots are of another log; folding from its beginning")
        return _no_streams(events), starts
    for partition, position in recovered.positions.items():
        starts[events.name, partition] = position
    streams = _no_streams(events)
    for stream in recovered.streams:
        streams.adopt(stream)
    streams.positions.update(recovered.positions)
    return streams, starts


def _no_streams(events: Topic) -> Streams:
    return Streams(AGGREGATES, partitions=events.partitions, spilled=SpillStore())
