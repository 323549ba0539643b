"""Folds the events about keys: the first key that a partition trusts decides about all others."""

from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.trusted_keys import Trust, TrustedKey
from trackside.contracts.streams.keys import (
    KEY_EVENTS,
    KeyRevoked,
    KeyTrusted,
    SignatureModeChanged,
    key_id_of,
)
from trackside.contracts.trust.decision_signing import KEY_ID
from trackside.contracts.trust.trust import is_signed
from trackside.domain.outcome import Outcome

KINDS: frozenset[type[Message]] = frozenset(KEY_EVENTS)
SETUP_ROLE = "setup"
PUBLIC_KEY_BYTES = 32


def evolve(trust: Trust, record: Record) -> Outcome:
    """Folds an event about keys. Never raises.

    Whatever the mode, it must be signed with a key of the installation, and be of this partition: a copy in
    another one would change what that trusts.
    """
    event = record.message
    if not isinstance(event, KeyTrusted | KeyRevoked | SignatureModeChanged):
        return Outcome.OVERTAKEN
    if record.envelope.role not in event.written_by:
        return Outcome.OVERTAKEN
    if (event.topic, event.partition) != (record.topic, record.partition):
        return Outcome.OVERTAKEN
    signer = _signer(trust, record)
    if signer is None or record.envelope.decision_id or not is_signed(record, signer.public_key):
        return Outcome.OVERTAKEN
    if isinstance(event, KeyTrusted):
        return _trusted(trust, event, record.offset)
    if isinstance(event, KeyRevoked):
        return _revoked(trust, event, record.offset)
    if event.mode == trust.mode or event.number <= len(trust.modes):
        return Outcome.DUPLICATE
    if event.number != len(trust.modes) + 1:
        return Outcome.OVERTAKEN
    trust.modes.append((record.offset, event.mode))
    return Outcome.APPLIED


def _signer(trust: Trust, record: Record) -> TrustedKey | None:
    """Returns the key of the installation that an event must be signed with; None if there is no such key.

    The first event brings it.
    """
    event = record.message
    key_id = record.envelope.headers.get(KEY_ID, b"").decode("utf-8", "replace")
    if not trust.keys and isinstance(event, KeyTrusted) and event.key_id == key_id:
        return TrustedKey(event.public_key, event.role) if event.role == SETUP_ROLE else None
    key = trust.keys.get(key_id)
    return key if key is not None and key.role == SETUP_ROLE and key.revoked_at is None else None


def _trusted(trust: Trust, event: KeyTrusted, offset: int) -> Outcome:
    if event.key_id in trust.keys:
        return Outcome.DUPLICATE
    try:
        octets = bytes.fromhex(event.public_key)
    except ValueError:
        return Outcome.OVERTAKEN
    if len(octets) != PUBLIC_KEY_BYTES or key_id_of(octets) != event.key_id:
        return Outcome.OVERTAKEN
    if bool(event.worker_id) != (event.role == "worker"):
        return Outcome.OVERTAKEN
    trust.keys[event.key_id] = TrustedKey(event.public_key, event.role, event.worker_id, offset)
    return Outcome.APPLIED


def _revoked(trust: Trust, event: KeyRevoked, offset: int) -> Outcome:
    """Folds that a key is revoked; the last key of the installation can't be, or nothing could follow."""
    key = trust.keys.get(event.key_id)
    if key is None:
        return Outcome.OVERTAKEN
    if key.revoked_at is not None:
        return Outcome.DUPLICATE
    others = (known for known in trust.keys.values() if known is not key)
    if key.role == SETUP_ROLE and not any(
        each.role == SETUP_ROLE and each.revoked_at is None for each in others
    ):
        return Outcome.OVERTAKEN
    key.revoked_at = offset
    return Outcome.APPLIED
