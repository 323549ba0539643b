"""Signs commands with a private key, so that a dispatcher can verify their publisher."""

import base64
from dataclasses import dataclass, replace
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.wire.ingress import read_command
from trackside.contracts.wire.signing import KEY_ID, SIGNATURE, signed_octets
from trackside.eventlog.log import Outgoing
from trackside.sdk.errors import BadKeyError as BadKeyError


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key, and the id of its public key in the dispatcher's keys."""

    key_id: str
    private: Ed25519PrivateKey

    def signed(self, record: Outgoing, topic: str) -> Outgoing:
        """Returns the record with its signature for a topic of commands, and the key id, as headers."""
        headers = {name.lower(): octets for name, octets in record.headers if octets is not None}
        value = record.value or b""
        arrival = read_command(headers, record.key, value)
        signature = self.private.sign(signed_octets(topic, self.key_id, arrival, value))
        added = [(KEY_ID, self.key_id.encode()), (SIGNATURE, base64.b64encode(signature))]
        return replace(record, headers=[*record.headers, *added])


def read_signer(path: Path) -> Signer:
    """Reads a private key as `openssl genpkey -algorithm ed25519` writes it; its id is the file's name.

    Raises BadKeyError.
    """
    key_id = path.stem
    if not is_identifier(key_id):
        raise BadKeyError(f"{path}: {key_id!r} can't be a key's id: expected {IDENTIFIER_RULE}")
    try:
        private = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise BadKeyError(f"{path}: {error.strerror or error}") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadKeyError(f"{path}: no private key in PEM without a password: {error}") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise BadKeyError(f"{path}: expected an Ed25519 key, got {type(private).__name__}")
    return Signer(key_id, private)
