"""A recorded stream, and its state at any point in time: a fold that stops early. Reads the log alone."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.topics import Topics, partition_of
from trackside.domain.folding.fold import fold
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.clock import monotonic_s, rfc3339
from trackside.eventlog.keys.decode import decode, stream_of
from trackside.eventlog.keys.noted_keys import NotedKeys
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.projections.past.partition_fold import begins_stream
from trackside.projections.past.reader import PastReader
from trackside.projections.past.snapshot_format import StatePosition
from trackside.replay.history.errors import (
    SILENCE_LIMIT_S,
    BadRangeError,
    ForgottenStreamError,
    KeyMissingError,
    SilentLogError,
)
from trackside.replay.history.point_in_time import NOW, PointInTime
from trackside.replay.history.state_cache import (
    CACHE_EVERY_RECORDS,
    StateCache,
    StoredState,
    is_at_or_before,
)

TURN_S = 0.05
"""After how many seconds another part of the process has its turn."""
READ_RECORDS = 20_000
FIRST_READ_RECORDS = 500
"""How many records are read first: a search for the first record of a stream mostly needs no more."""
MIN_RECORDS_TO_CACHE = CACHE_EVERY_RECORDS // 10
"""How many records must have been folded for the state at the point asked for to be cached."""
RecordedEntry = tuple[Record, Entry]


@dataclass(frozen=True, slots=True)
class RecordedStream:
    """One recorded stream: `select` picks its records out of the entries of `place` from `begin` to `end`.

    It is given each entry with the stream that this names. Offsets of records are those of the partition
    where the stream was first written, `partition`; `last_offset` is the highest that they could have now.
    `past` has stored states of it. `keys` are those that its partition trusts, as far as it was read; an
    imported stream has none, for what its installation did not trust is not in the file.
    """

    log: Log
    stream_id: str
    place: TopicPartition
    begin: int
    end: int
    partition: int
    last_offset: int
    select: Callable[[Entry, bytes], Record | None]
    past: PastReader | None = None
    keys: NotedKeys | None = None

    async def records(self) -> AsyncGenerator[RecordedEntry, None]:
        """Yields the records of the stream in log order, each with the entry it was read from."""
        keys, until_s = self.keys, monotonic_s() + TURN_S
        async with aclosing(read_entries(self.log, self.place, self.begin, self.end)) as batches:
            async for batch in batches:
                for entry in batch:
                    if monotonic_s() > until_s:
                        await asyncio.sleep(0)
                        until_s = monotonic_s() + TURN_S
                    stream = stream_of(entry)
                    record = self.select(entry, stream)
                    if record is not None:
                        yield record if keys is None else keys.checked(record), entry
                    elif keys is not None:
                        keys.note(entry, stream)

    async def read_again(
        self, stream: Stream, end: int
    ) -> AsyncGenerator[tuple[Record, Outcome, Entry], None]:
        """Folds what a stream lacks that was parked and goes on with the entry before `end`; yields that.

        But for what has counted when it came, or waits again.
        """
        while (released := stream.released) is not None:
            begin = self.begin if self.keys is None else max(self.begin, released.read_to + 1)
            async with aclosing(replace(self, begin=begin, end=end).records()) as records:
                async for record, entry in records:
                    if record.offset <= released.read_to:
                        continue
                    released.read_to = record.offset
                    outcome = fold(stream, record, AGGREGATES)
                    if outcome is not Outcome.PARKED:
                        yield record, outcome, entry
            if stream.released is released:
                stream.released = None


@dataclass(slots=True)
class PastState:
    """A stream as it was after record `last`.

    `records` were written by then, of which `ignored` had no effect, and `cached` were in a cached state.
    `last` is entry `entry` of its topic; `latest_ms` is the newest append time.
    """

    stream: Stream
    last: Record
    records: int = 0
    ignored: int = 0
    entry: int = -1
    cached: int = 0
    latest_ms: int = 0

    def fold(self, record: Record, entry: int) -> None:
        """Folds the next record."""
        self.last, self.entry = record, entry
        self.records += 1
        self.latest_ms = max(self.latest_ms, record.append_time_ms)
        self.ignored += fold(self.stream, record, AGGREGATES) is not Outcome.APPLIED


async def read_entries(
    log: Log, place: TopicPartition, begin: int, end: int
) -> AsyncGenerator[Sequence[Entry], None]:
    """Yields the entries of a partition from `begin` up to `end`, in batches; raises SilentLogError."""
    if begin >= end:
        return
    reader, last_read_s, records = log.reader({place: begin}), monotonic_s(), FIRST_READ_RECORDS
    try:
        while True:
            batch = await reader.read(1.0, records)
            if batch:
                last_read_s, records = monotonic_s(), READ_RECORDS
                over = batch[-1].offset + 1 >= end
                yield batch if batch[-1].offset < end else [e for e in batch if e.offset < end]
                if over:
                    return
            elif monotonic_s() - last_read_s > SILENCE_LIMIT_S:
                name = f"{place[0]}-{place[1]}"
                raise SilentLogError(f"{name} ends at {end}, but gave nothing for {SILENCE_LIMIT_S:.0f} s")
    finally:
        await reader.close()


def has_value(entry: Entry, value: bytes) -> bool:
    """Returns whether the key or a header has this value: a fast filter of the records of other streams."""
    return entry.key == value or any(found == value for _, found in entry.headers)


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Turns the garbage collector off: it would traverse a state that only grows, again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


async def find_live(
    log: Log, topics: Topics, stream_id: str, past: PastReader | None = None
) -> RecordedStream | None:
    """Finds a stream in the log of events, from its first command on; None if it isn't there.

    With snapshots of the past its beginning is read where they have it, not searched for.
    """
    topic, name = topics.events.name, stream_id.encode()
    ends = await log.ends(topic)
    partition = partition_of(stream_id, len(ends))
    place, end = (topic, partition), ends[partition]

    def select(entry: Entry, stream: bytes) -> Record | None:
        return decode(entry) if stream == name else None

    recorded = RecordedStream(log, stream_id, place, 0, end, partition, end - 1, select, past, NotedKeys())
    known = None if past is None else await _stored_beginning(recorded, past)
    if known is not None:
        return known
    begin = (await log.beginnings(topic))[partition]
    found = await _first_record(replace(recorded, begin=begin))
    return None if found is None else replace(recorded, begin=found.offset)


async def _stored_beginning(recorded: RecordedStream, past: PastReader) -> RecordedStream | None:
    """Returns a stream from where snapshots of the past say that it begins, with the keys that they have.

    None if they do not have it, or are of another log.
    """
    keys = NotedKeys()
    keys.adopt(await past.keys(recorded.place))
    begin, begin_id = await past.begin(recorded.place, recorded.stream_id) or (recorded.end, "")
    if begin >= recorded.end:
        return None
    found = await _first_record(replace(recorded, begin=begin, end=begin + 1, keys=keys))
    if found is None or found.envelope.id != begin_id:
        return None
    return replace(recorded, begin=begin, keys=keys)


async def _first_record(recorded: RecordedStream) -> Record | None:
    """Returns the first record that begins a stream, None if there is none."""
    async with aclosing(recorded.records()) as records:
        async for record, _ in records:
            if begins_stream(record):
                return record
    return None


async def read_beginning(recorded: RecordedStream) -> Stream:
    """Returns a stream at its beginning, from which its kind is known; reads no more records than that."""
    stream = Stream(recorded.stream_id, recorded.partition)
    async with aclosing(recorded.records()) as records:
        async for record, entry in records:
            fold(stream, record, AGGREGATES)
            async for _ in recorded.read_again(stream, entry.offset + 1):
                pass
            if stream.root is not None:
                break
    return stream


async def states_at(
    recorded: RecordedStream, points: Sequence[PointInTime], cache: StateCache | None = None
) -> AsyncGenerator[PastState, None]:
    """Yields the stream at each of some points in time, in their order; it is one object that is folded on.

    The fold starts from the nearest state in the snapshots of the past and in a cache, if there are any, and
    later states are added to the cache. Raises BadRangeError if the stream hadn't begun, if the log hasn't
    reached a point, or if the order is wrong.
    """
    for point in points:
        if point.offset is not None and point.offset > recorded.last_offset:
            raise BadRangeError(f"the last offset of the partition is {recorded.last_offset}, not {point}")
    pending, past, at = list(points), None, recorded.begin
    if (found := await stored_state(recorded, pending[0], cache)) is not None:
        past, at = found
    async with aclosing(replace(recorded, begin=at).records()) as records:
        async for record, entry in records:
            while pending and not pending[0].includes(record):
                yield _at_point(past, pending.pop(0), record)
            if not pending:
                return
            if past is None:
                past = PastState(Stream(recorded.stream_id, recorded.partition), record)
            past.fold(record, entry.offset)
            async for _ in recorded.read_again(past.stream, entry.offset + 1):
                pass
            if cache is not None and past.records % CACHE_EVERY_RECORDS == 0:
                _cache(cache, recorded, past)
    for point in pending:
        if past is not None:
            yield _at_point(past, point, past.last)


async def stored_state(
    recorded: RecordedStream, point: PointInTime, cache: StateCache | None = None
) -> tuple[PastState, int] | None:
    """Returns the nearest stored state of this very stream at a point or before, and the entry after it.

    The stream's keys are those of the state then, too. None if there is no such state.
    """
    found: list[StoredState] = []
    if recorded.past is not None:
        nearest = await recorded.past.nearest(
            recorded.place, recorded.stream_id, lambda position: is_at_or_before(position, point)
        )
        if nearest is not None:
            found.append(StoredState(*nearest))
    cached = None if cache is None else cache.nearest(recorded.place, recorded.stream_id, point)
    if cached is not None:
        found.append(cached)
    for stored in sorted(found, key=lambda each: each.position.entry, reverse=True):
        position, stream = stored.position, stored.stream
        record = await _record_at(recorded, position)
        if record is not None:
            if recorded.keys is not None:
                recorded.keys.adopt(stored.keys)
            counts = (position.records, position.ignored, position.entry, position.records)
            return PastState(stream, record, *counts, position.latest_ms), position.entry + 1
    return None


async def _record_at(recorded: RecordedStream, position: StatePosition) -> Record | None:
    """Returns the record that a state was stored after; None if the log has another one there."""
    at = position.entry
    if not recorded.begin <= at < recorded.end:
        return None
    async with aclosing(replace(recorded, begin=at, end=at + 1).records()) as records:
        async for record, _ in records:
            if record.envelope.id == position.record_id and record.offset == position.offset:
                return record
    return None


def _cache(cache: StateCache, recorded: RecordedStream, past: PastState) -> None:
    last = past.last
    position = StatePosition(
        past.entry, last.offset, past.latest_ms, last.envelope.id, past.records, past.ignored
    )
    keys = None if recorded.keys is None else recorded.keys.stream(recorded.partition)
    cache.put(recorded.place, StoredState(position, past.stream, keys))


def _at_point(past: PastState | None, point: PointInTime, beyond: Record) -> PastState:
    """Checks that a point in time is not before what was folded."""
    if past is None:
        began = f"offset {beyond.offset}, {rfc3339(beyond.append_time_ms)}"
        raise BadRangeError(f"{beyond.envelope.stream} began at {began}; it has no state at {point}")
    if not point.includes(past.last):
        raise BadRangeError(f"{point} comes before the moment to start from, at offset {past.last.offset}")
    check_readable(past.stream)
    return past


def check_readable(stream: Stream) -> None:
    """Checks that what was folded is the whole stream; raises ForgottenStreamError, KeyMissingError."""
    if stream.forgotten is not None:
        when = rfc3339(stream.forgotten.forgotten_ms)
        raise ForgottenStreamError(
            f"stream {stream.stream_id} was forgotten at {when}: its content can't be read any more; "
            "`trackside show` has its counts"
        )
    if stream.lacks_key:
        raise KeyMissingError(
            f"stream {stream.stream_id} is encrypted, and its key is missing: it was forgotten later, or "
            "Postgres has lost its keys; `trackside show` says which"
        )


async def state_at(
    recorded: RecordedStream, point: PointInTime = NOW, cache: StateCache | None = None
) -> PastState:
    """Returns the stream as it was at a point in time; raises BadRangeError."""
    with gc_disabled():
        async with aclosing(states_at(recorded, [point], cache)) as found:
            past = await anext(found)
    if (
        cache is not None
        and past.records > CACHE_EVERY_RECORDS
        and past.records - past.cached > MIN_RECORDS_TO_CACHE
    ):
        _cache(cache, recorded, past)
    return past
