"""Whether a record is signed with a key that its place in the log trusts."""

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from trackside.contracts.envelope.message import Record
from trackside.contracts.envelope.trusted_keys import Trust
from trackside.contracts.trust import ed25519
from trackside.contracts.trust.decision_signing import CHAIN, KEY_ID, SIGNATURE, record_digest, signed_octets

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


def distrust_of(trust: Trust, record: Record, expected: bytes) -> str:
    """Returns why keys don't trust a record, empty if they do.

    `expected` is the digest that the record before it in its decision names.
    """
    envelope = record.envelope
    if envelope.decision_id and envelope.index:
        found = record_digest(record.topic, envelope.headers, record.value)
        return "" if found == expected else BROKEN_CHAIN
    key_id = envelope.headers.get(KEY_ID)
    if not key_id or SIGNATURE not in envelope.headers:
        return UNSIGNED
    key = trust.keys.get(key_id.decode("utf-8", "replace"))
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
