"""Entries of the log as records, without those that are forged, and the answers among them."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.standing import Standing
from trackside.contracts.streams.commands import CommandAccepted, CommandRefused, Source
from trackside.contracts.trust.encryption import EncryptedRecord
from trackside.domain.folding.streams import Streams
from trackside.domain.outcome import Outcome
from trackside.domain.streams.stream import Stream
from trackside.eventlog.keys.decode import decode
from trackside.eventlog.log import Entry
from trackside.sdk.connection.publication import ANSWER_TYPES, PublishedCommand, no_key
from trackside.sdk.errors import EncryptedStreamError


def of_stream(entry: Entry, stream_id: str) -> Record | None:
    """Decodes an entry if it belongs to the stream; others are skipped by their headers."""
    return decode(entry) if CODEC.envelope(entry.headers).stream == stream_id else None


async def not_forged(records: AsyncGenerator[Record, None]) -> AsyncGenerator[Record, None]:
    """Yields those of a client's `events` that are not forged; closes `records`."""
    async with aclosing(records):
        async for record in records:
            if record.standing is not Standing.FORGED:
                yield record


async def folded(
    events: Callable[[str, bool, int], AsyncGenerator[Record, None]],
    streams: Streams,
    stream_id: str,
    follow: bool = False,
    from_offset: int = 0,
) -> AsyncGenerator[tuple[Stream, Outcome, Record], None]:
    """Folds the records of a stream that `events` of a client gives, and yields each.

    Those that came while it was parked are read again when it goes on, and yielded again if they do no longer
    wait.
    """
    async with aclosing(events(stream_id, follow, from_offset)) as records:
        async for record in records:
            yield (*streams.fold(record), record)
            while (stream := streams.released.get(stream_id)) is not None:
                released = stream.released
                assert released is not None
                async with aclosing(events(stream_id, False, released.read_to + 1)) as before:
                    async for each in before:
                        if each.offset > record.offset or stream.released is not released:
                            break
                        outcome = streams.fold_again(each)[1]
                        if outcome is not Outcome.PARKED:
                            yield stream, outcome, each
                streams.have_read_again({stream_id: released}, record.offset + 1)


def check_readable(stream: Stream) -> None:
    """Raises EncryptedStreamError for a stream that is forgotten or lacks its key."""
    if stream.lacks_key:
        raise EncryptedStreamError(no_key(stream.stream_id))
    if stream.forgotten is not None:
        raise EncryptedStreamError(f"stream {stream.stream_id} was forgotten")


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
