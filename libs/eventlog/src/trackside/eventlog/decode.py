"""Reads entries of our own topics, so that every reader passes over the same ones."""

import structlog

from trackside.contracts.codec import CODEC, UndecodableError, UnknownMessageError
from trackside.contracts.message import Record
from trackside.eventlog.log import Entry

log = structlog.get_logger("trackside.eventlog")


class TombstoneError(Exception):
    """A record of the log was deleted by key: the log isn't whole, and nobody may go on."""


def tombstone(entry: Entry) -> TombstoneError:
    """Gives the error of an entry that has no value."""
    return TombstoneError(
        f"tombstone in {entry.topic}-{entry.partition} at {entry.offset}: somebody has deleted a record of "
        "the log, and nobody can go on without it; restore the topic from a copy that is whole"
    )


def decode(entry: Entry) -> Record | None:
    """Decodes an entry; None for what isn't ours (no reader folds it).

    Raises UnknownMessageError for a message of a newer release, and TombstoneError: both stop a service.
    """
    if entry.value is None:
        raise tombstone(entry)
    envelope = CODEC.envelope(entry.headers)
    try:
        message = CODEC.decode(envelope, entry.value)
    except UnknownMessageError as error:
        if envelope.role:
            place = f"{entry.topic}-{entry.partition} at {entry.offset}"
            raise UnknownMessageError(error.code, f"{place}: {error}") from error
        _passed_over(entry, error)
        return None
    except UndecodableError as error:
        _passed_over(entry, error)
        return None
    return Record(entry.topic, entry.partition, entry.offset, entry.append_time_ms, envelope, message)


def _passed_over(entry: Entry, error: UndecodableError) -> None:
    log.warning(
        "record passed over",
        topic=entry.topic,
        partition=entry.partition,
        offset=entry.offset,
        code=error.code,
        reason=str(error)[:300],
    )
