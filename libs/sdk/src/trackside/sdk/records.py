"""Entries of the log as records, without those that are forged, and the answers among them."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from trackside.aggregates.registry import AGGREGATES, CODEC
from trackside.contracts.commands import CommandAccepted, CommandRefused, Source
from trackside.contracts.message import Record
from trackside.domain.streams import Streams
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Entry
from trackside.sdk.publication import Accepted, PublishedCommand, Refused, answer_to

_ANSWERS = frozenset({CommandAccepted.wire_type(), CommandRefused.wire_type()})


def of_stream(entry: Entry, stream_id: str) -> Record | None:
    """Decodes an entry if it belongs to the stream; others are skipped by their headers."""
    return decode(entry) if CODEC.envelope(entry.headers).stream == stream_id else None


async def trusted(records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
    """Yields the records of a stream but for those that are forged; closes `records`.

    They are to be all from the first one on: whom an event counts from depends on those before it.
    """
    streams = Streams(AGGREGATES)
    async with aclosing(records):
        async for record in records:
            streams.fold(record)
            if not record.distrust:
                yield record


def found_answer(
    entry: Entry, waiting: Mapping[Source, PublishedCommand]
) -> tuple[PublishedCommand, Accepted | Refused] | None:
    """Returns the answer in an entry with its command, if it answers one of these commands."""
    if CODEC.envelope(entry.headers).type not in _ANSWERS:
        return None
    record = decode(entry)
    if record is None:
        return None
    message = record.message
    if not isinstance(message, CommandAccepted | CommandRefused) or message.source not in waiting:
        return None
    publication = waiting[message.source]
    found = answer_to(publication, record)
    return None if found is None else (publication, found)
