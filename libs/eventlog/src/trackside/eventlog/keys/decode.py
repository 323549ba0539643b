"""Decodes entries of our own topics, so that every reader skips the same ones."""

from collections.abc import Callable

import structlog

from trackside.aggregates.registry import CODEC
from trackside.contracts.envelope.message import Envelope, Message, Record
from trackside.contracts.streams.parking import ROLES, UnknownRecord, is_wire_type
from trackside.contracts.trust.encryption import PUBLIC_KEY, EncryptedRecord
from trackside.contracts.wire.codec import UndecodableError, UnknownMessageError
from trackside.eventlog.log import Entry

log = structlog.get_logger("trackside.eventlog")

REQUIRED_HEADERS = ("ce_type", "ce_id", "ce_source", "ce_partitionkey")
"""The headers without which a record is none of ours."""
STREAM = "ce_partitionkey"
_LENGTH = len(STREAM)
OnUnreadable = Callable[[Entry, UndecodableError], None]


def log_unreadable(entry: Entry, error: UndecodableError) -> None:
    """Logs that a record has no effect, for any reader."""
    log.warning(
        "record skipped",
        topic=entry.topic,
        partition=entry.partition,
        offset=entry.offset,
        code=error.code,
        reason=str(error)[:300],
    )


def stream_of(entry: Entry) -> bytes:
    """Returns the stream that an entry is of, as its envelope says it, empty for none.

    A fast filter for readers of single streams: it reads one header, in any case as the envelope does.
    """
    found = b""
    for name, octets in entry.headers:
        if len(name) == _LENGTH and octets is not None and name.lower() == STREAM:
            found = octets
    return found


def decode(entry: Entry, on_unreadable: OnUnreadable = log_unreadable) -> Record | None:
    """Decodes an entry; None for one that can't be read: no reader folds it.

    A record of a type that only a newer release has is an `UnknownRecord`, one whose stream's key the reader
    does not have an `EncryptedRecord`.
    """
    envelope = CODEC.envelope(entry.headers)
    try:
        message = _message(entry, envelope)
    except UndecodableError as error:
        on_unreadable(entry, error)
        return None
    return Record(
        entry.topic,
        entry.partition,
        entry.offset,
        entry.append_time_ms,
        envelope,
        message,
        (entry.value if entry.stored is None else entry.stored) or b"",
    )


def _message(entry: Entry, envelope: Envelope) -> Message:
    if PUBLIC_KEY not in envelope.headers:
        return message_of(envelope, entry.value)
    if entry.stored is None and entry.value is not None:
        _check_headers(envelope)
        return EncryptedRecord(encrypted_type=envelope.type)
    try:
        return message_of(envelope, entry.value)
    except UnknownMessageError:
        raise
    except UndecodableError as error:  # its text may repeat the value
        raise UndecodableError(error.code, f"the decrypted value is no {envelope.type}") from None


def message_of(envelope: Envelope, value: bytes | None) -> Message:
    """Reads the message of a record, an `UnknownRecord` if only a newer release can.

    Raises UndecodableError.
    """
    try:
        message = CODEC.decode(envelope, value)
    except UnknownMessageError:
        if not _is_of_newer_release(envelope):
            raise
        return UnknownRecord(unknown_type=envelope.type)
    if not (envelope.id and envelope.stream and envelope.role):
        _check_headers(envelope)
    return message


def _check_headers(envelope: Envelope) -> None:
    if missing := _missing(envelope):
        raise UndecodableError("missing_header", f"header {missing!r} is missing")


def _missing(envelope: Envelope) -> str:
    """Returns the first header that a record of ours has and this one lacks, or nothing."""
    return next((name for name in REQUIRED_HEADERS if not envelope.headers.get(name)), "")


def _is_of_newer_release(envelope: Envelope) -> bool:
    """Returns whether a record of an unknown type is otherwise as a service of Trackside writes it."""
    return envelope.role in ROLES and not _missing(envelope) and is_wire_type(envelope.type)
