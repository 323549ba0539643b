"""Entries of the log as records, without those that are forged, and the answers among them."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing

from trackside.aggregates.registry import CODEC
from trackside.contracts.commands import CommandAccepted, CommandRefused, Source
from trackside.contracts.encryption import EncryptedRecord
from trackside.contracts.message import Record
from trackside.contracts.standing import Standing
from trackside.domain.outcome import Outcome
from trackside.domain.stream import Stream
from trackside.eventlog.decode import decode
from trackside.eventlog.log import Entry
from trackside.sdk.errors import EncryptedStreamError
from trackside.sdk.publication import ANSWER_TYPES, PublishedCommand, no_key


def of_stream(entry: Entry, stream_id: str) -> Record | None:
    """Decodes an entry if it belongs to the stream; others are skipped by their headers."""
    return decode(entry) if CODEC.envelope(entry.headers).stream == stream_id else None


async def not_forged(records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
    """Yields those of a client's `events` that are not forged; closes `records`."""
    async with aclosing(records):
        async for record in records:
            if record.standing is not Standing.FORGED:
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


def answering(
    entry: Entry, waiting: Mapping[Source, PublishedCommand]
) -> tuple[PublishedCommand, Record] | None:
    """Returns the record in an entry with the command that it answers, if it does one of these."""
    if CODEC.envelope(entry.headers).type not in ANSWER_TYPES:
        return None
    record = decode(entry)
    publication = None if record is None else answered_by(record, waiting)
    return None if record is None or publication is None else (publication, record)


def answered_by(record: Record, waiting: Mapping[Source, PublishedCommand]) -> PublishedCommand | None:
    """Returns which of these commands a record answers, by what it says of itself.

    One that is encrypted may answer any command of its stream.
    """
    message, stream = record.message, record.envelope.stream
    if record.envelope.role != "dispatcher":
        return None
    if isinstance(message, EncryptedRecord):
        return next((each for each in waiting.values() if each.stream_id == stream), None)
    if not isinstance(message, CommandAccepted | CommandRefused):
        return None
    publication = waiting.get(message.source)
    return publication if publication is not None and publication.stream_id == stream else None
