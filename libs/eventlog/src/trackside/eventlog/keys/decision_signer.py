"""Signs the records of a decision with the key of a service or a worker."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trackside.artifacts.blobs.private_files import read_private
from trackside.contracts.streams.keys import key_id_of
from trackside.contracts.trust.decision_signing import CHAIN, KEY_ID, SIGNATURE, record_digest, signed_octets
from trackside.eventlog.log import Outgoing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class DecisionSigner:
    """Signs with a private key; `public_key` are the 32 bytes of its public half."""

    private: "Ed25519PrivateKey"
    public_key: bytes
    key_id: str

    @classmethod
    def of(cls, private: "Ed25519PrivateKey") -> "DecisionSigner":
        """Returns what signs with a key."""
        octets = private.public_key().public_bytes_raw()
        return cls(private, octets, key_id_of(octets))

    def sign(self, topic: str, decision: Sequence[Outgoing]) -> list[Outgoing]:
        """Returns the records of one decision for a topic, chained, the first one signed."""
        signed: list[Outgoing] = []
        digest = b""
        for record in reversed(decision):
            headers = [*record.headers, *([(CHAIN, digest)] if digest else ())]
            digest = record_digest(topic, dict(headers), record.value or b"")
            signed.append(Outgoing(record.key, record.value, headers, record.time_ms))
        signed.reverse()
        key_id = self.key_id.encode()
        signature = base64.b64encode(self.private.sign(signed_octets(key_id, digest)))
        signed[0].headers = [*signed[0].headers, (KEY_ID, key_id), (SIGNATURE, signature)]
        return signed


def new_signer() -> DecisionSigner:
    """Returns a signer with a new key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return DecisionSigner.of(Ed25519PrivateKey.generate())


def read_signing_key(path: Path) -> DecisionSigner:
    """Reads the private key of a service: PEM (PKCS #8), in a file that others can't read.

    Raises ValueError, which says what is wrong and what to do.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    text = read_private(path)
    try:
        private = load_pem_private_key(text, None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"no private key in PEM: {error}") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise ValueError(f"expected an Ed25519 key, got {type(private).__name__}")
    return DecisionSigner.of(private)


def pem_of(signer: DecisionSigner) -> bytes:
    """Returns the private key of a signer as a file has it."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return signer.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
