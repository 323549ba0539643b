"""What the signature of a decision is over, byte for byte; docs/security.md has it for other languages.

The records of a decision are a chain, from its end: each carries the digest of the next one, and the first is
signed. So one signature covers all of them, and a reader checks each record when it comes.
"""

import base64
import hashlib
from collections.abc import Mapping

CHAIN = "ce_chain"
"""Header: the digest of the next record of the decision; the last one has none."""
KEY_ID = "ce_keyid"
"""Header of the first record: the key of the signature."""
SIGNATURE = "ce_signature"
"""Header of the first record: the Ed25519 signature, in base64."""
HEADERS = frozenset({CHAIN, KEY_ID, SIGNATURE})
FORM = b"trackside-decision-v1"
COVERED = (
    "ce_id",
    "ce_type",
    "ce_source",
    "ce_time",
    "ce_partitionkey",
    "ce_subject",
    "ce_causationid",
    "ce_correlationid",
    "ce_decisionid",
    "ce_index",
    "ce_count",
    "ce_sequence",
    "traceparent",
    CHAIN,
)
"""The headers that a digest covers, in this order: all that readers read."""


def record_digest(topic: str, headers: Mapping[str, bytes | None], value: bytes) -> bytes:
    """Returns the SHA-256 of a record, in base64.

    It is over its topic, the covered headers and the SHA-256 of its value: each as its length, four bytes
    with the highest first, and its bytes. A header that is missing is empty.
    """
    parts = [topic.encode(), *(headers.get(name) or b"" for name in COVERED), hashlib.sha256(value).digest()]
    framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return base64.b64encode(hashlib.sha256(framed).digest())


def signed_octets(key_id: bytes, first_digest: bytes) -> bytes:
    """Returns what is signed: the name of this form, the key's id and the digest of the first record."""
    return b"\n".join((FORM, key_id, first_digest))
