"""The keys that a partition trusts at a place in it, and whether a record is signed with one of them."""

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from trackside.contracts import ed25519
from trackside.contracts.decision_signing import CHAIN, KEY_ID, SIGNATURE, record_digest, signed_octets
from trackside.contracts.keys import SignatureMode
from trackside.contracts.message import Record

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

UNSIGNED: Final = "unsigned"
UNKNOWN_KEY: Final = "unknown_key"
REVOKED_KEY: Final = "revoked_key"
ANOTHER_ROLE: Final = "another_role"
ANOTHER_WORKER: Final = "another_worker"
BAD_SIGNATURE: Final = "bad_signature"
BROKEN_CHAIN: Final = "broken_chain"
DISTRUST = (
    UNSIGNED,
    UNKNOWN_KEY,
    REVOKED_KEY,
    ANOTHER_ROLE,
    ANOTHER_WORKER,
    BAD_SIGNATURE,
    BROKEN_CHAIN,
)
"""Why a record is not trusted."""


@dataclass(slots=True)
class TrustedKey:
    """A key, whose it is, and from which offset on it is trusted, and no longer.

    `public_key` are its 32 bytes in hex.
    """

    public_key: str
    role: str
    worker_id: str = ""
    trusted_at: int = -1
    revoked_at: int | None = None


@dataclass(slots=True)
class Trust:
    """The keys by id, and where events need a signature, as folded from the events about keys.

    It says so of every place before these events, too: who reads one stream alone needs the newest only.
    """

    keys: dict[str, TrustedKey] = field(default_factory=dict)
    modes: list[tuple[int, SignatureMode]] = field(default_factory=list)
    """The offsets from which on another mode applies, the lowest first."""

    @property
    def mode(self) -> SignatureMode:
        """Whether events need a signature now."""
        return self.modes[-1][1] if self.modes else "off"

    def requires(self, offset: int) -> bool:
        """Returns whether an event at an offset needs a signature."""
        return next((mode for begin, mode in reversed(self.modes) if begin < offset), "off") == "require"

    def now(self) -> "Trust":
        """Returns the keys that are trusted now, and whether events need a signature now, for any place."""
        keys = {
            name: replace(key, trusted_at=-1, revoked_at=None if key.revoked_at is None else -1)
            for name, key in self.keys.items()
        }
        return Trust(keys, [(-1, self.mode)])

    def distrust(self, record: Record, expected: bytes) -> str:
        """Returns why a record is not trusted, empty if it is.

        `expected` is the digest that the record before it in its decision names.
        """
        envelope = record.envelope
        if envelope.decision_id and envelope.index:
            found = record_digest(record.topic, envelope.headers, record.value)
            return "" if found == expected else BROKEN_CHAIN
        key_id = envelope.headers.get(KEY_ID)
        if not key_id or SIGNATURE not in envelope.headers:
            return UNSIGNED
        key = self.keys.get(key_id.decode("utf-8", "replace"))
        if key is None or key.trusted_at >= record.offset:
            return UNKNOWN_KEY
        if key.revoked_at is not None and key.revoked_at < record.offset:
            return REVOKED_KEY
        if key.role != envelope.role:
            return ANOTHER_ROLE
        if key.role == "worker" and key.worker_id != instance_of(record):
            return ANOTHER_WORKER
        return "" if is_signed(record, key.public_key) else BAD_SIGNATURE


def next_digest(record: Record) -> bytes:
    """Returns the digest of the next record of its decision, empty if it is the last."""
    return record.envelope.headers.get(CHAIN, b"")


def instance_of(record: Record) -> str:
    """Returns the instance of the service that a record is of, by its source: of a worker, its id."""
    return record.envelope.source.rpartition("/")[2]


def is_signed(record: Record, public_key: str) -> bool:
    """Returns whether the signature of the first record of a decision is that of a key."""
    headers = record.envelope.headers
    try:
        public = _public_key(public_key)
    except ValueError:
        return False
    digest = record_digest(record.topic, headers, record.value)
    signed = signed_octets(headers.get(KEY_ID, b""), digest)
    return ed25519.is_valid(public, headers.get(SIGNATURE, b""), signed)


@lru_cache(maxsize=4_096)
def _public_key(octets: str) -> "Ed25519PublicKey":
    """Reads a public key; raises ValueError if it is none."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(octets))
