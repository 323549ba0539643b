"""Whether a signature is valid: one check for those of commands and those of decisions."""

import base64
import binascii
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def is_valid(public: "Ed25519PublicKey", signature: bytes, octets: bytes) -> bool:
    """Returns whether a signature, in base64, is that of a key over some octets. Never raises."""
    from cryptography.exceptions import InvalidSignature  # takes 8 MB, and most installations have no keys

    try:
        public.verify(base64.b64decode(signature, validate=True), octets)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
