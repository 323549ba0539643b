"""Encrypted streams: the headers of an encrypted record, and what stands for one that can't be read."""

from typing import ClassVar

from trackside.contracts.envelope.message import Event
from trackside.contracts.streams.parking import ROLES

PUBLIC_KEY, DATA_KEY = "ce_publickey", "ce_datakey"
"""The public key of the stream, and the key of the record, encrypted with it; both base64."""
ENCRYPTION_HEADERS = frozenset({PUBLIC_KEY, DATA_KEY})


class EncryptedRecord(Event):
    """What stands for a record whose stream's key this reader does not have; it is never written."""

    written_by: ClassVar[frozenset[str]] = ROLES
    encrypted_type: str
