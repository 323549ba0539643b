"""Reads the records of streams again that were parked, once the record that parked them is skipped.

While a stream is parked, readers keep nothing of what comes: the log does. This is how each of them gets it:
with a reader of its own, beside the one that goes on with all other streams.
"""

import asyncio
from collections.abc import Callable, Collection

import structlog

from trackside.contracts.envelope.message import Record
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.parking import Released
from trackside.domain.streams.stream import Stream
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import OffsetGoneError, TransientError
from trackside.eventlog.keys.decode import decode, stream_of
from trackside.eventlog.log import Entry, Log, Reader, TopicPartition

log = structlog.get_logger("trackside.eventlog")

MOST_READ = 500
"""How many records are read and folded before other work has its turn: about 20 ms."""
SILENCE_LIMIT_S = 30.0
"""How long the log may return nothing of what it has, s."""
RETRY_S = 1.0
Prepare = Callable[[Record], Record]
OnFolded = Callable[[Stream, Outcome, Record], None]


async def read_again(
    log_: Log, topic: str, streams: Streams, on_folded: OnFolded, prepare: Prepare = lambda record: record
) -> list[Stream]:
    """Folds what released streams lack, up to where all others are; returns the streams that go on.

    Calls `on_folded` for each record but those that are without a new outcome: they have counted when they
    came, or wait again. `prepare` completes a record before it is folded. Other streams may be folded on
    meanwhile. Raises OffsetGoneError if the log does not have the records any more, TransientError if it
    returns nothing for 30 s.
    """
    gone_on: list[Stream] = []
    while streams.released:
        partition = next(iter(streams.released.values())).partition
        gone_on += await _read_partition(log_, (topic, partition), streams, on_folded, prepare)
    return gone_on


async def _read_partition(
    log_: Log, place: TopicPartition, streams: Streams, on_folded: OnFolded, prepare: Prepare
) -> list[Stream]:
    """Reads the released streams of a partition again; one that is released meanwhile waits for the next."""
    reading = {
        name: stream.released
        for name, stream in streams.released.items()
        if stream.partition == place[1] and stream.released is not None
    }
    position = min(released.read_to for released in reading.values()) + 1
    reader, last_read_s, gone_on = log_.reader({place: position}), monotonic_s(), list[Stream]()
    try:
        while any(_is_read(streams, name, released) for name, released in reading.items()):
            entries = await _read(reader, f"{place[0]}-{place[1]}@{position}", reading)
            if entries:
                last_read_s = monotonic_s()
            elif monotonic_s() - last_read_s > SILENCE_LIMIT_S:
                raise TransientError(f"{place[0]}-{place[1]} gave nothing for {SILENCE_LIMIT_S:.0f} s")
            end = streams.positions[place[1]]
            for entry in entries:
                position = min(entry.offset + 1, end)
                name = stream_of(entry).decode("utf-8", "replace")
                released = reading.get(name)
                if released is None or not released.read_to < entry.offset < end:
                    continue
                record = decode(entry, _passed_over) if _is_read(streams, name, released) else None
                if record is not None:
                    stream, outcome = streams.fold_again(prepare(record))
                    if outcome is not Outcome.PARKED:
                        on_folded(stream, outcome, record)
            if entries:
                gone_on += streams.have_read_again(reading, position)
            await asyncio.sleep(0)
    finally:
        await reader.close()
    return gone_on


def _is_read(streams: Streams, name: str, released: Released) -> bool:
    stream = streams.released.get(name)
    return stream is not None and stream.released is released


async def _read(reader: Reader, place: str, names: Collection[str]) -> list[Entry]:
    try:
        return await reader.read(1.0, MOST_READ)
    except OffsetGoneError as error:
        raise OffsetGoneError(
            f"{', '.join(sorted(names))} can't continue: what came while it was parked is to be read again "
            f"from {place} on, and the log does not have it any more ({error}); restore the log from a backup"
        ) from error


def _passed_over(entry: Entry, error: Exception) -> None:
    """Does nothing: that it can't be read was logged when it came."""


async def follow_released(
    log_: Log, topic: str, streams: Streams, on_folded: OnFolded, on_gone_on: Callable[[Stream], None]
) -> None:
    """Reads released streams again as they are released, for as long as a service runs.

    Calls `on_gone_on` for each stream that goes on. Where the log lacks the records, the streams of that
    partition stay as they are, and the reason is logged.
    """
    wanted = asyncio.Event()
    streams.on_released = wanted.set
    while True:
        if not streams.released:
            await wanted.wait()
        wanted.clear()
        try:
            for stream in await read_again(log_, topic, streams, on_folded):
                on_gone_on(stream)
        except TransientError as error:
            log.warning("waiting for the log, to read streams again", reason=str(error))
            await asyncio.sleep(RETRY_S)
        except OffsetGoneError as error:
            log.error("stream can't continue", reason=str(error))
            streams.released.clear()
