"""Decodes entries of our own topics, so that every reader skips the same ones."""

import structlog

from trackside.aggregates.registry import CODEC
from trackside.contracts.codec import UndecodableError, UnknownMessageError
from trackside.contracts.message import Record
from trackside.eventlog.log import Entry

log = structlog.get_logger("trackside.eventlog")


class TombstoneError(Exception):
    """A record of the log was deleted by key: the log is incomplete, and no service may continue."""


def tombstone_error(entry: Entry) -> TombstoneError:
    """Returns the error of an entry that has no value."""
    return TombstoneError(
        f"tombstone in {entry.topic}-{entry.partition} at {entry.offset}: a record of the log was deleted, "
        "and no service can continue without it; restore the topic from a complete copy"
    )


def decode(entry: Entry) -> Record | None:
    """Decodes an entry; None for what isn't ours (no reader folds it).

    Raises UnknownMessageError for a message of a newer release, and TombstoneError: both stop a service.
    """
    if entry.value is None:
        raise tombstone_error(entry)
    envelope = CODEC.envelope(entry.headers)
    try:
        message = CODEC.decode(envelope, entry.value)
    except UnknownMessageError as error:
        if envelope.role:
            place = f"{entry.topic}-{entry.partition} at {entry.offset}"
            raise UnknownMessageError(error.code, f"{place}: {error}") from error
        _log_skipped(entry, error)
        return None
    except UndecodableError as error:
        _log_skipped(entry, error)
        return None
    return Record(
        entry.topic, entry.partition, entry.offset, entry.append_time_ms, envelope, message, entry.value
    )


def _log_skipped(entry: Entry, error: UndecodableError) -> None:
    log.warning(
        "record skipped",
        topic=entry.topic,
        partition=entry.partition,
        offset=entry.offset,
        code=error.code,
        reason=str(error)[:300],
    )
