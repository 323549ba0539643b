"""Encrypts the values of records for their stream, and decrypts those that are read.

A stream has a key pair (X25519). Each writer draws a data key for a stream, encrypts it with the public key
(HPKE, RFC 9180, base mode), and encrypts values with it (AES-256-GCM): a random nonce of 12 bytes, then the
ciphertext with its tag of 16. The id and the type of the record are authenticated with it. So writers need no
secret, and whoever has not the private key of the stream can read none of its records.
"""

import asyncio
import base64
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import structlog

from trackside.contracts.trust.encryption import DATA_KEY, PUBLIC_KEY
from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError
from trackside.eventlog.log import Entry, Outgoing, RecordHeaders

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hpke import Suite

log = structlog.get_logger("trackside.eventlog")

NONCE_BYTES = 12
RETRY_S = 0.5
"""How long to wait, in s, before keys that could not be read are read again."""
KEY_BYTES = 32
INFO = b"trackside-stream-v1"
MAX_STREAMS = 10_000
"""How many streams' keys are kept in memory."""
KEPT_S = 600.0
"""How long a stream's key is kept in memory, in s, before it is read again: it may have been deleted."""


def _suite() -> "Suite":
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


def new_key_pair() -> tuple[bytes, bytes]:
    """Returns a new private key and its public key, 32 bytes each."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = X25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


@dataclass(frozen=True, slots=True)
class _DataKey:
    public_key: bytes
    encrypted: bytes
    cipher: "AESGCM"


class Encryption:
    """Encrypts the records of one writer; it has a data key for each stream that it has written lately."""

    def __init__(self) -> None:
        self._keys: dict[str, _DataKey] = {}

    def encrypt(self, record: Outgoing, public_key: str) -> Outgoing:
        """Returns a record with its value encrypted for a stream; `public_key` is base64."""
        return _encrypted(record, self._keys.get(public_key) or self._draw(public_key))

    def _draw(self, public_key: str) -> _DataKey:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        secret = os.urandom(KEY_BYTES)
        public = X25519PublicKey.from_public_bytes(base64.b64decode(public_key))
        encrypted = base64.b64encode(_suite().encrypt(secret, public, INFO))
        if len(self._keys) >= MAX_STREAMS:
            del self._keys[next(iter(self._keys))]
        key = self._keys[public_key] = _DataKey(public_key.encode(), encrypted, AESGCM(secret))
        return key


def _encrypted(record: Outgoing, key: _DataKey) -> Outgoing:
    nonce = os.urandom(NONCE_BYTES)
    sealed = key.cipher.encrypt(nonce, record.value or b"", _authenticated(record.headers))
    # First, so that a reader sees by the first header of a record whether it is encrypted.
    headers = [(PUBLIC_KEY, key.public_key), (DATA_KEY, key.encrypted), *record.headers]
    return Outgoing(record.key, nonce + sealed, headers, record.time_ms)


def _authenticated(headers: RecordHeaders) -> bytes:
    named = dict(headers)
    return b"\n".join(named.get(name) or b"" for name in ("ce_id", "ce_type", "ce_partitionkey"))


def is_encrypted(entry: Entry) -> bool:
    """Returns whether the value of an entry is encrypted, and was not decrypted."""
    headers = entry.headers
    return bool(headers) and headers[0][0] == PUBLIC_KEY and entry.stored is None


class StreamKeys(Protocol):
    """Where the private keys of streams are kept."""

    async def load(self, public_keys: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Returns the private keys of those of these public keys that are kept; raises TransientError."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...


@dataclass(slots=True)
class _KnownStream:
    """The private key of a stream, empty if it is not kept, and the data keys that it has decrypted."""

    private_key: bytes
    read_s: float
    ciphers: dict[bytes, "AESGCM | None"] = field(default_factory=dict)


class Decryption:
    """Decrypts entries as they are read; an entry that it can't decrypt stays as it is."""

    def __init__(self, keys: StreamKeys) -> None:
        self._keys = keys
        self._known: dict[bytes, _KnownStream] = {}

    def close(self) -> None:
        """Closes the connection to where the keys are."""
        self._keys.close()

    async def decrypt(self, entries: Sequence[Entry]) -> None:
        """Replaces the values of encrypted entries, in place. Raises TransientError if keys can't be read."""
        # Not by `is_encrypted`: this looks at each record of the log.
        encrypted = [each for each in entries if each.headers and each.headers[0][0] == PUBLIC_KEY]
        if encrypted:
            streams = await self._streams_of({each.headers[0][1] or b"" for each in encrypted})
            for entry in encrypted:
                self._decrypt(entry, streams[entry.headers[0][1] or b""])

    async def _streams_of(self, public_keys: set[bytes]) -> dict[bytes, _KnownStream]:
        """Returns what is known of streams; reads the keys that are not known, or not since long."""
        now_s = monotonic_s()
        missing = {
            key
            for key in public_keys
            if (known := self._known.get(key)) is None or now_s - known.read_s > KEPT_S
        }
        streams = {key: self._known[key] for key in public_keys - missing}
        if missing:
            wanted = [octets for key in missing if len(octets := _unbase64(key)) == KEY_BYTES]
            found = await self._keys.load(wanted)
            streams |= {key: _KnownStream(found.get(_unbase64(key), b""), now_s) for key in missing}
        for key, stream in streams.items():  # those that were used last are dropped last
            self._known.pop(key, None)
            self._known[key] = stream
        while len(self._known) > MAX_STREAMS:
            del self._known[next(iter(self._known))]
        return streams

    def _decrypt(self, entry: Entry, stream: _KnownStream) -> None:
        headers = dict(entry.headers)
        data_key = headers.get(DATA_KEY) or b""
        if not stream.private_key or entry.value is None:
            return
        if data_key not in stream.ciphers:
            stream.ciphers[data_key] = _cipher(data_key, stream.private_key)
        cipher = stream.ciphers[data_key]
        entry.stored = entry.value
        entry.value = b"" if cipher is None else _opened(cipher, entry.value, _authenticated(entry.headers))


async def decrypt_or_wait(decryption: Decryption, entries: Sequence[Entry], wait_s: float) -> bool:
    """Decrypts entries as `Decryption.decrypt` does; waits and returns False if the keys can't be read."""
    try:
        await decryption.decrypt(entries)
    except TransientError as error:
        log.warning("waiting for the keys of encrypted streams", reason=str(error))
        await asyncio.sleep(wait_s)
        return False
    return True


def _cipher(data_key: bytes, private_key: bytes) -> "AESGCM | None":
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        private = X25519PrivateKey.from_private_bytes(private_key)
        return AESGCM(_suite().decrypt(_unbase64(data_key), private, INFO))
    except (InvalidTag, ValueError):
        return None


def _opened(cipher: "AESGCM", value: bytes, authenticated: bytes) -> bytes:
    """Returns the decrypted value; nothing, which no message is, for what a stranger has written."""
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(value[:NONCE_BYTES], value[NONCE_BYTES:], authenticated)
    except (InvalidTag, ValueError):
        return b""


def _unbase64(octets: bytes) -> bytes:
    try:
        return base64.b64decode(octets, validate=True)
    except ValueError:
        return b""
