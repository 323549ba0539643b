"""Where a stream is recorded, and its state as it was: a fold that stops early. Needs the log alone."""

import gc
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.commands import CommandReceived
from trackside.contracts.message import Record
from trackside.contracts.topics import Topics, partition_of
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream, fold
from trackside.eventlog.clock import monotonic_s, rfc3339
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Entry, Log, TopicPartition
from trackside.replay.history.errors import SILENCE_LIMIT_S, BadRangeError, SilentLogError
from trackside.replay.history.moments import NOW, Moment
from trackside.replay.history.state_cache import EVERY_RECORDS, Kept, mark_of

READ_RECORDS = 20_000
FIRST_READ_RECORDS = 500
"""How many are read at first: most often who looks for the first record of a stream needs no more."""
WORTH_KEEPING = EVERY_RECORDS // 10
"""How many records must have been folded for a state to be kept at the moment that was asked for."""
Taken = tuple[Record, Entry]


@dataclass(frozen=True, slots=True)
class History:
    """One recorded stream: `take` picks its records out of the entries of `place` from `begin` to `end`.

    Offsets of records are those of the partition where the stream was first written, `partition`; the last
    of them that there could be now is `last_offset`.
    """

    log: Log
    stream_id: str
    place: TopicPartition
    begin: int
    end: int
    partition: int
    last_offset: int
    take: Callable[[Entry], Record | None]

    async def taken(self) -> AsyncGenerator[Taken, None]:
        """Gives the records of the stream in log order, each with the entry it was read from."""
        async with aclosing(entries(self.log, self.place, self.begin, self.end)) as batches:
            async for batch in batches:
                for entry in batch:
                    record = self.take(entry)
                    if record is not None:
                        yield record, entry


@dataclass(slots=True)
class Past:
    """A stream as it was behind `last`; `records` were written by then, of which `ignored` had no effect.

    `last` lies at `entry` of its topic. `known` of these records were in a state that had been kept;
    `latest_ms` is the newest append time.
    """

    stream: Stream
    last: Record
    records: int = 0
    ignored: int = 0
    entry: int = -1
    known: int = 0
    latest_ms: int = 0

    def fold(self, record: Record, entry: int) -> None:
        """Folds the next record."""
        self.last, self.entry = record, entry
        self.records += 1
        self.latest_ms = max(self.latest_ms, record.append_time_ms)
        self.ignored += fold(self.stream, record, AGGREGATES) is not Outcome.APPLIED


async def entries(
    log: Log, place: TopicPartition, begin: int, end: int
) -> AsyncGenerator[Sequence[Entry], None]:
    """Gives the entries of a partition from `begin` up to `end`, in batches; raises SilentLogError."""
    if begin >= end:
        return
    reader, heard, records = log.reader({place: begin}), monotonic_s(), FIRST_READ_RECORDS
    try:
        while True:
            batch = await reader.read(1.0, records)
            if batch:
                heard, records = monotonic_s(), READ_RECORDS
                over = batch[-1].offset + 1 >= end
                yield batch if batch[-1].offset < end else [e for e in batch if e.offset < end]
                if over:
                    return
            elif monotonic_s() - heard > SILENCE_LIMIT_S:
                name = f"{place[0]}-{place[1]}"
                raise SilentLogError(f"{name} ends at {end}, but gave nothing for {SILENCE_LIMIT_S:.0f} s")
    finally:
        await reader.close()


def speaks_of(entry: Entry, octets: bytes) -> bool:
    """Says whether any header has these bytes: quick, to pass over the records of other streams."""
    return entry.key == octets or any(found == octets for _, found in entry.headers)


@contextmanager
def uncollected() -> Iterator[None]:
    """Keeps the collector of cycles from going through a state that only grows, again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


async def find_live(log: Log, topics: Topics, stream_id: str) -> History | None:
    """Finds a stream in the log of events, from its first command on; None if it isn't there."""
    topic, name = topics.events.name, stream_id.encode()
    ends = await log.ends(topic)
    partition = partition_of(stream_id, len(ends))
    place, end = (topic, partition), ends[partition]

    def take(entry: Entry) -> Record | None:
        record = decode(entry) if speaks_of(entry, name) else None
        return record if record is not None and record.envelope.stream == stream_id else None

    async with aclosing(entries(log, place, (await log.beginnings(topic))[partition], end)) as batches:
        async for batch in batches:
            for entry in batch:
                record = take(entry)
                if record is not None and _begins(record):
                    return History(log, stream_id, place, entry.offset, end, partition, end - 1, take)
    return None


def _begins(record: Record) -> bool:
    return isinstance(record.message, CommandReceived) and record.envelope.role in record.message.written_by


async def pasts(
    history: History, moments: Sequence[Moment], kept: Kept | None = None
) -> AsyncGenerator[Past, None]:
    """Gives the stream at each of some moments, in their order; it is one object that goes on changing.

    What was kept of a long stream is where it begins, and what is kept of it after that. Raises
    BadRangeError if the stream hadn't begun, if the log isn't there yet, or if the order is wrong.
    """
    for moment in moments:
        if moment.offset is not None and moment.offset > history.last_offset:
            raise BadRangeError(f"the last offset of the partition is {history.last_offset}, not {moment}")
    waiting, past, at = list(moments), None, history.begin
    if kept is not None and (found := await _begun(history, waiting[0], kept)) is not None:
        past, at = found
    async with aclosing(replace(history, begin=at).taken()) as records:
        async for record, entry in records:
            while waiting and not waiting[0].includes(record):
                yield _stopped(past, waiting.pop(0), record)
            if not waiting:
                return
            if past is None:
                past = Past(Stream(history.stream_id, history.partition), record)
            past.fold(record, entry.offset)
            if kept is not None and past.records % EVERY_RECORDS == 0:
                _keep(kept, history.place, past)
    for moment in waiting:
        if past is not None:
            yield _stopped(past, moment, past.last)


async def _begun(history: History, moment: Moment, kept: Kept) -> tuple[Past, int] | None:
    """Gives the nearest kept state of this very stream, and where the log goes on behind it."""
    found = kept.nearest(history.place, history.stream_id, moment)
    if found is None:
        return None
    mark, stream = found
    at = mark.entry
    if not history.begin <= at < history.end:
        return None
    async with aclosing(replace(history, begin=at, end=at + 1).taken()) as records:
        async for record, _ in records:
            if record.envelope.id == mark.record_id and record.offset == mark.offset:
                past = Past(stream, record, mark.records, mark.ignored, at, mark.records, mark.latest_ms)
                return past, at + 1
    return None


def _keep(kept: Kept, place: TopicPartition, past: Past) -> None:
    mark = mark_of(past.last, past.entry, past.latest_ms, past.records, past.ignored)
    kept.keep(place, mark, past.stream)


def _stopped(past: Past | None, moment: Moment, beyond: Record) -> Past:
    """Checks that a moment lies behind what was folded."""
    if past is None:
        began = f"offset {beyond.offset}, {rfc3339(beyond.append_time_ms)}"
        raise BadRangeError(f"{beyond.envelope.stream} began at {began}; it has no state at {moment}")
    if not moment.includes(past.last):
        raise BadRangeError(f"{moment} comes before the moment to start from, at offset {past.last.offset}")
    return past


async def past_at(history: History, moment: Moment = NOW, kept: Kept | None = None) -> Past:
    """Gives the stream as it was at a moment; raises BadRangeError."""
    with uncollected():
        async with aclosing(pasts(history, [moment], kept)) as found:
            past = await anext(found)
    if kept is not None and past.records > EVERY_RECORDS and past.records - past.known > WORTH_KEEPING:
        _keep(kept, history.place, past)
    return past
