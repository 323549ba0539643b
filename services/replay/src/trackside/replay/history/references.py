"""What a record of the log refers to in the store of artifacts."""

import json
import re
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from trackside.contracts.tasks.artifacts import ArtifactReference

_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_FIELDS = ("uri", "sha256", "size_bytes", "media_type", "source", "credential")


def digests_in(value: bytes) -> set[str]:
    """Returns all that can be a digest in a record, whatever its message."""
    return {found.decode() for found in _DIGEST.findall(value)}


def references_in(value: bytes) -> Iterator[ArtifactReference]:
    """Yields the artifacts that a record refers to, with their sizes and media types."""
    if b'"sha256"' in value:
        yield from _references(json.loads(value))


def _references(value: Any) -> Iterator[ArtifactReference]:
    if isinstance(value, dict):
        if value.keys() >= {"sha256", "size_bytes", "uri"}:
            try:
                yield ArtifactReference(**{name: value[name] for name in _FIELDS if name in value})
            except ValidationError:
                return
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)
