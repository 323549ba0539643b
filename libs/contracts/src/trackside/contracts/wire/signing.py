"""What a signature of a command is over, byte for byte; docs/publishing.md says it for other languages."""

import hashlib

from trackside.contracts.wire.ingress import Arrival

KEY_ID = "trackside-key-id"
SIGNATURE = "trackside-signature"
FORM = "trackside-command-signature-v1"


def signed_octets(topic: str, key_id: str, arrival: Arrival, value: bytes) -> bytes:
    """Returns the octets that are signed: eight lines with a line feed between them, in UTF-8.

    The value counts as it is in the record, in either mode of CloudEvents, so nobody has to write JSON alike.
    A command for an encrypted stream has a ninth line, `encrypted`.
    """
    lines = (
        FORM,
        topic,
        key_id,
        arrival.command_id,
        arrival.command_type,
        arrival.stream,
        arrival.receipt_to,
        hashlib.sha256(value).hexdigest(),
        *(("encrypted",) if arrival.encrypted else ()),
    )
    return "\n".join(lines).encode("utf-8", "surrogatepass")
