"""The keys that events are signed with: which are trusted is itself said in the log, in each partition."""

import hashlib
from functools import lru_cache
from typing import ClassVar

from trackside.contracts.envelope.message import SETUP, Event
from trackside.contracts.envelope.topics import partition_of
from trackside.contracts.envelope.trusted_keys import SignatureMode

KEYS_STREAM = "keys/"
"""What the streams of these events begin with: no identifier does, so no command is about one."""
KEY_ID_DIGITS = 16


class KeyTrusted(Event):
    """From here on a partition trusts events that are signed with a key, by one role.

    The first one is of a key of the role `setup`, the installation's own, and signed with that key itself.
    All later events about keys must be signed with a key of that role. `public_key` are its 32 bytes in hex.
    A key of the role `worker` signs for the worker `worker_id` alone.
    """

    written_by: ClassVar[frozenset[str]] = SETUP
    topic: str
    partition: int
    key_id: str
    public_key: str
    role: str
    worker_id: str = ""


class KeyRevoked(Event):
    """From here on events that are signed with a key have no effect; it is never trusted again."""

    written_by: ClassVar[frozenset[str]] = SETUP
    topic: str
    partition: int
    key_id: str
    reason: str = ""


class SignatureModeChanged(Event):
    """From here on events need a valid signature (`require`), or signatures are not checked (`off`).

    The changes of a partition are numbered from 1: a copy of an earlier one changes nothing.
    """

    written_by: ClassVar[frozenset[str]] = SETUP
    topic: str
    partition: int
    number: int
    mode: SignatureMode


KEY_EVENTS: tuple[type[Event], ...] = (KeyTrusted, KeyRevoked, SignatureModeChanged)


def key_id_of(public_key: bytes) -> str:
    """Returns the id of a key: the beginning of the SHA-256 of its public half, in hex."""
    return hashlib.sha256(public_key).hexdigest()[:KEY_ID_DIGITS]


@lru_cache
def keys_stream(partition: int, partitions: int) -> str:
    """Returns the stream of the events about keys that is in a partition, by the hash of its name."""
    number = 0
    while partition_of(f"{KEYS_STREAM}{number}", partitions) != partition:
        number += 1
    return f"{KEYS_STREAM}{number}"
