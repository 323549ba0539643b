"""Writes the snapshots of a partition that are due, from the newest one on."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from trackside.contracts.envelope.topics import Topic
from trackside.domain.streams.stream import Stream
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.projections.past.chain import StoredSnapshot, append, forget, newest_states, read_chain
from trackside.projections.past.partition_fold import PartitionFold
from trackside.projections.past.snapshot_format import DamagedSnapshotError, SnapshotSpan
from trackside.projections.past.store import PastStore
from trackside.projections.writing.snapshots import BYTES_PER_RECORD
from trackside.telemetry.logs import logger

EVERY_RECORDS: Final = 20_000
"""How many offsets of a partition there are between snapshots: more if its streams are large."""
READ_RECORDS: Final = 5_000
SILENCE_LIMIT_S: Final = 30.0
"""How long the log may return nothing before its end is reached, s."""
log = logger("trackside.projections")


def next_position(span: SnapshotSpan | None, every: int = EVERY_RECORDS) -> int:
    """Returns the offset of the snapshot after one.

    Large states are written less often, after as many records as they had bytes, divided by 1,000: all
    snapshots together have at most so many bytes for each record.
    """
    if span is None:
        return every
    steps = -(-span.state_bytes // (BYTES_PER_RECORD * every))
    return span.position + every * max(1, steps)


async def write_past(
    log_: Log, topic: Topic, partition: int, store: PastStore, max_bytes: int, every: int = EVERY_RECORDS
) -> int:
    """Writes the snapshots of a partition that are due; returns the offset of the next one.

    Raises StoreUnusableError, DamagedSnapshotError, and TransientError of the log.
    """
    place = (topic.name, partition)
    chain = await read_chain(store, place)
    end = (await log_.ends(topic.name))[partition]
    if chain and not await _is_in_log(log_, place, chain[-1].span, end):
        log.warning(
            "snapshots of the past are of another log, made again", topic=place[0], partition=partition
        )
        await forget(store, place, [each.span.position for each in chain])
        chain = []
    target = next_position(chain[-1].span if chain else None, every)
    if target > end:
        return target
    try:
        return await _PastWriter(store, place, chain, max_bytes, every).write(log_, topic.partitions, end)
    except (
        DamagedSnapshotError
    ):  # all bytes are as written, but a state can't be read: the next run starts over
        await forget(store, place, await store.positions(place))
        raise


async def _is_in_log(log_: Log, place: TopicPartition, span: SnapshotSpan, end: int) -> bool:
    """Returns whether the log has the last record of a snapshot where that was."""
    if not 0 <= span.entry < end:
        return False
    async with aclosing(_entries(log_, place, span.entry, span.entry + 1)) as entries:
        async for entry in entries:
            record = decode(entry)
            return record is not None and record.envelope.id == span.record_id
    return False


async def _entries(log_: Log, place: TopicPartition, begin: int, end: int) -> AsyncGenerator[Entry, None]:
    """Yields entries of a partition before an offset; ends early when the log returns nothing for 30 s."""
    reader, last_read_s = log_.reader({place: begin}), monotonic_s()
    try:
        while monotonic_s() - last_read_s < SILENCE_LIMIT_S:
            for entry in await reader.read(1.0, READ_RECORDS):
                last_read_s = monotonic_s()
                if entry.offset < end:
                    yield entry
                if entry.offset + 1 >= end:
                    return
    finally:
        await reader.close()


class _PastWriter:
    """Folds on from a chain of snapshots, and adds one at each offset that is due."""

    def __init__(
        self, store: PastStore, place: TopicPartition, chain: list[StoredSnapshot], max_bytes: int, every: int
    ) -> None:
        self._store, self._place, self._chain = store, place, chain
        self._max_bytes, self._every = max_bytes, every

    async def write(self, log_: Log, partitions: int, end: int) -> int:
        """Reads up to an offset; returns the offset of the next snapshot."""
        folded = PartitionFold(self._place[1], partitions, newest_states(self._chain))
        position = self._chain[-1].span.position if self._chain else 0
        target = self._target()
        async with aclosing(_entries(log_, self._place, position, end)) as entries:
            async for entry in entries:
                while entry.offset >= target:
                    target = await self._add(folded, target)
                folded.fold(entry)
                if (stream := folded.released(entry)) is not None:
                    await self._read_again(log_, folded, stream, entry.offset + 1)
                if entry.offset + 1 == target:
                    target = await self._add(folded, target)
                if target > end:
                    break
        return target

    async def _read_again(self, log_: Log, folded: PartitionFold, stream: Stream, end: int) -> None:
        """Folds what a stream lacks that was parked and goes on."""
        while (released := stream.released) is not None:
            async with aclosing(_entries(log_, self._place, released.read_to + 1, end)) as entries:
                async for entry in entries:
                    folded.fold_again(stream, entry)
            if stream.released is released:
                stream.released = None

    def _target(self) -> int:
        return next_position(self._chain[-1].span if self._chain else None, self._every)

    async def _add(self, folded: PartitionFold, target: int) -> int:
        """Writes the snapshot at an offset; returns the offset of the next one."""
        since = self._chain[-1].span.position if self._chain else 0
        streams, size = folded.take()
        span = SnapshotSpan(since, target, *folded.last, size)
        await append(self._store, self._place, self._chain, span, streams, self._max_bytes)
        return self._target()
