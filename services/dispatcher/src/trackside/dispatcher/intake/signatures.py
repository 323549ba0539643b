"""Verifies that a command is signed with a known key: Ed25519, over the octets of `contracts.signing`."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trackside.contracts.envelope.ids import IDENTIFIER_RULE, is_identifier
from trackside.contracts.envelope.refusals import Problem, nearest
from trackside.contracts.trust import ed25519
from trackside.contracts.wire.ingress import Arrival, read_command
from trackside.contracts.wire.signing import KEY_ID, SIGNATURE, signed_octets
from trackside.eventlog.files_by_id import read_by_id
from trackside.eventlog.log import Entry

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SignaturePolicy = Literal["off", "accept", "require"]
_FIELDS = {"public", "revoked"}


class BadKeysError(Exception):
    """The file of keys is not valid; the message names the file, the key and the rule."""


@dataclass(frozen=True, slots=True)
class PublisherKey:
    """A publisher's public key; commands that reach the log from `revoked_ms` on are refused."""

    public: "Ed25519PublicKey"
    revoked: str = ""
    revoked_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SignatureResult:
    """The key that a command is signed with, or why its signature is refused."""

    key_id: str = ""
    problem: Problem | None = None


@dataclass(frozen=True, slots=True)
class SignatureVerifier:
    """The policy and the keys.

    `off`: signatures are not checked; `accept`: a signature must be valid if there is one; `require`: every
    command must have a valid one.
    """

    policy: SignaturePolicy = "off"
    keys: Mapping[str, PublisherKey] = field(default_factory=dict)

    def read(self, entry: Entry) -> tuple[Arrival, SignatureResult]:
        """Reads a record of any publisher and verifies its signature; raises UndecodableError."""
        headers = {name.lower(): octets for name, octets in entry.headers if octets is not None}
        arrival = read_command(headers, entry.key, entry.value)
        return arrival, self._verify(headers, entry, arrival)

    def _verify(self, headers: Mapping[str, bytes], entry: Entry, arrival: Arrival) -> SignatureResult:
        if self.policy == "off":
            return SignatureResult()
        named, signature = headers.get(KEY_ID), headers.get(SIGNATURE)
        if named is None and signature is None:
            return (
                SignatureResult()
                if self.policy == "accept"
                else SignatureResult(problem=_problem("unsigned", _UNSIGNED))
            )
        key_id = (named or b"").decode("utf-8", "replace")
        if not is_identifier(key_id):
            return SignatureResult(problem=_problem("unknown_key", f"expected a key's id, {IDENTIFIER_RULE}"))
        key = self.keys.get(key_id)
        if key is None:
            known = nearest(key_id, self.keys)
            return SignatureResult(problem=_problem("unknown_key", f"no key {key_id!r} is known here{known}"))
        octets = signed_octets(entry.topic, key_id, arrival, entry.value or b"")
        if not ed25519.is_valid(key.public, signature or b"", octets):
            message = f"the signature is not that of key {key_id!r} over this command for {entry.topic}"
            return SignatureResult(problem=_problem("bad_signature", message))
        if key.revoked_ms is not None and entry.append_time_ms >= key.revoked_ms:
            message = f"key {key_id!r} was revoked at {key.revoked}; sign with another one"
            return SignatureResult(problem=_problem("key_revoked", message))
        return SignatureResult(key_id)


SIGNATURES_OFF = SignatureVerifier()
"""The default policy: signatures are not checked."""

_UNSIGNED = f"commands must be signed here; the headers {KEY_ID} and {SIGNATURE} are missing"


def _problem(code: str, message: str) -> Problem:
    return Problem(code=code, path="$signature", message=message)


def read_keys(path: Path) -> dict[str, PublisherKey]:
    """Reads the file of keys: {"ID": {"public": PEM or base64 of 32 bytes, "revoked": RFC 3339 time}, ...}.

    Raises BadKeysError.
    """
    try:
        body = read_by_id(path, "keys")
    except ValueError as error:
        raise BadKeysError(str(error)) from error
    return {key_id: _key(path, key_id, fields) for key_id, fields in body.items()}


def _key(path: Path, key_id: str, fields: Any) -> PublisherKey:
    where = f"{path}: key {key_id!r}"
    if not is_identifier(key_id):
        raise BadKeysError(f"{where}: expected an id, {IDENTIFIER_RULE}")
    if not isinstance(fields, dict) or not isinstance(fields.get("public"), str) or fields.keys() - _FIELDS:
        raise BadKeysError(f'{where}: expected {{"public": ..., "revoked": ...}}, revoked only if it is')
    try:
        public = _public(fields["public"])
    except ValueError as error:
        raise BadKeysError(f"{where}: not an Ed25519 public key: {error}") from error
    revoked = fields.get("revoked", "")
    if not revoked:
        return PublisherKey(public)
    try:
        moment = datetime.fromisoformat(revoked)
    except (TypeError, ValueError) as error:
        raise BadKeysError(f"{where}: revoked: {error}") from error
    if moment.tzinfo is None:
        raise BadKeysError(f"{where}: revoked: {revoked!r} needs a time zone, such as Z")
    return PublisherKey(public, revoked, int(moment.timestamp() * 1_000))


def _public(text: str) -> "Ed25519PublicKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if "-----BEGIN" not in text:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    found = load_pem_public_key(text.encode())
    if not isinstance(found, Ed25519PublicKey):
        raise ValueError(f"it is a {type(found).__name__}")
    return found
