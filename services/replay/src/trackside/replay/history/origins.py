"""The recorded stream that another one repeats or continues, as the event that began it says."""

from contextlib import aclosing
from dataclasses import dataclass
from typing import Literal

from trackside.aggregates.run.messages import RunStarted
from trackside.aggregates.search.messages import SearchStarted
from trackside.contracts.envelope.topics import Topics
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Log
from trackside.replay.history.recorded_stream import has_value, read_entries


@dataclass(frozen=True, slots=True)
class RecordedOrigin:
    """A stream was made from another one, as that was after `offset`: repeats it, or continues it."""

    kind: Literal["rerun", "fork"]
    stream: str
    offset: int


async def read_origin(
    log: Log, topics: Topics, stream_id: str, partition: int, first: int, last: int
) -> RecordedOrigin | None:
    """Returns what a search or a run was made from, None for one that was not; reads only its beginning.

    `first` and `last` are the offsets of its first and last event. Raises SilentLogError and TransientError.
    """
    name, place = stream_id.encode(), (topics.events.name, partition)
    async with aclosing(read_entries(log, place, first, last + 1)) as batches:
        async for batch in batches:
            for entry in batch:
                record = decode(entry) if has_value(entry, name) else None
                if record is None or record.envelope.stream != stream_id:
                    continue
                message = record.message
                if isinstance(message, SearchStarted | RunStarted):
                    found = message.origin if isinstance(message, SearchStarted) else message.copy_of
                    return None if found is None else RecordedOrigin(found.kind, found.stream, found.offset)
    return None
