"""Entries of the log as records, without those that are forged, and the answers among them."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing

from trackside.aggregates.registry import AGGREGATES, CODEC
from trackside.contracts.commands import CommandAccepted, CommandRefused, Source
from trackside.contracts.encryption import EncryptedRecord
from trackside.contracts.message import Record
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.domain.streams import Streams
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Entry
from trackside.sdk.errors import EncryptedStreamError
from trackside.sdk.publication import (
    ANSWER_TYPES,
    Accepted,
    PublishedCommand,
    Refused,
    answer_to,
    no_key,
)


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


def readable(
    folded: Iterable[tuple[Stream, Outcome, Record]],
) -> Iterator[tuple[Stream, Outcome, Record]]:
    """Yields what was folded; raises EncryptedStreamError for a stream that is forgotten or lacks its key."""
    for stream, outcome, record in folded:
        if stream.lacks_key:
            raise EncryptedStreamError(no_key(stream.stream_id))
        if stream.forgotten is not None:
            raise EncryptedStreamError(f"stream {stream.stream_id} was forgotten")
        yield stream, outcome, record


def found_answer(
    entry: Entry, waiting: Mapping[Source, PublishedCommand]
) -> tuple[PublishedCommand, Accepted | Refused] | None:
    """Returns the answer in an entry with its command, if it answers one of these commands."""
    if CODEC.envelope(entry.headers).type not in ANSWER_TYPES:
        return None
    record = decode(entry)
    if record is None:
        return None
    message = record.message
    if isinstance(message, EncryptedRecord):
        for publication in waiting.values():
            answer_to(publication, record)
        return None
    if not isinstance(message, CommandAccepted | CommandRefused) or message.source not in waiting:
        return None
    publication = waiting[message.source]
    found = answer_to(publication, record)
    return None if found is None else (publication, found)
