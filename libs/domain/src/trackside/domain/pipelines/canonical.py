"""JSON in its canonical form (RFC 8785), and its digest: the same for the same values, however written."""

import hashlib
from typing import Any

import rfc8785


def canonical_json(value: Any) -> bytes:
    """Returns JSON in its canonical form; an integer beyond 2^53, which has none, counts by its digits."""
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError:
        return rfc8785.dumps(_with_texts(value))


def canonical_digest(value: Any) -> str:
    """Returns the SHA-256 of the canonical form of JSON, in hexadecimal digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def _with_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_texts(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_with_texts(inner) for inner in value]
    is_large = isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53
    return {"integer": str(value)} if is_large else value
