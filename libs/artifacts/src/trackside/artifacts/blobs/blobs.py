"""What holds blobs by their digests: one protocol for a folder and for object stores."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from trackside.artifacts.blobs.source_files import SourceFile

CHUNK_BYTES = 2**20
BLOBS = "blobs/sha256"
"""The folder of all blobs."""
UNFINISHED = "tmp"
"""The folder of what is being written."""
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Blob:
    """The bytes of one digest: their size, and when they were last saved, in ms since 1970.

    `version` changes with the bytes, where a store says that: an ETag; empty for others.
    """

    sha256: str
    size_bytes: int
    saved_ms: int = 0
    version: str = ""


@dataclass(frozen=True)
class Unfinished:
    """What a writer left that was killed, or is still writing: its name, size, and age as ms since 1970."""

    name: str
    size_bytes: int
    saved_ms: int


@dataclass(frozen=True)
class Written:
    """A source that the store has: its digest, its size in bytes, and whether its file is executable."""

    sha256: str
    size_bytes: int
    executable: bool = False


class BlobReader(Protocol):
    """Keeps blobs in one place; StoreUnreachable from each method."""

    @property
    def url(self) -> str:
        """Where it is, for messages."""
        ...

    def read(self, sha256: str) -> Iterator[bytes]:
        """Yields the bytes of a blob in parts, unchecked; FileNotFoundError if it isn't there."""
        ...

    def find(self, sha256: str) -> Blob | None:
        """Returns the size and the age of a blob, None if it isn't there."""
        ...


class BlobStore(BlobReader, Protocol):
    """Holds blobs in one place; StoreUnreachable and StoreFull from each method."""

    def put(self, sources: Sequence[SourceFile]) -> list[Written]:
        """Saves sources; each was read back when this returns. Bytes that are there are not written again.

        ArtifactChanged if a file changes meanwhile. After an error some of the sources may be saved.
        """
        ...

    def list_blobs(self) -> Iterator[Blob]:
        """Yields all blobs."""
        ...

    def delete(self, sha256: str, saved_before_ms: int) -> bool:
        """Deletes a blob unless it was saved again since; returns whether it did."""
        ...

    def list_unfinished(self) -> Iterator[Unfinished]:
        """Yields what writers left that were killed, and what is being written."""
        ...

    def delete_unfinished(self, name: str) -> None:
        """Deletes one of them; its writer, if it still runs, fails."""
        ...


def blob_path(sha256: str) -> str:
    """Returns the path of a blob within its store: its folder is named by two digits of its digest."""
    return f"{BLOBS}/{sha256[:2]}/{sha256}"


def is_digest(text: str) -> bool:
    """Returns whether a text is a SHA-256 in hex, as blobs are named."""
    return _DIGEST.fullmatch(text) is not None
