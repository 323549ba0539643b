"""Artifacts outside the store of the installation: a file by its URL, or what another store has."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trackside.artifacts.blobs.blobs import CHUNK_BYTES, Blob, BlobReader
from trackside.artifacts.blobs.credentials import Credential
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.blobs.object_blobs import ObjectBlobs, open_object_blobs
from trackside.artifacts.blobs.urls import local_path
from trackside.artifacts.errors import BadArtifact, StoreUnreachable
from trackside.contracts.tasks.artifacts import check_url

_IN_A_STORE = re.compile(r"(?P<root>.+)/blobs/sha256/(?P<folder>[0-9a-f]{2})/(?P=folder)[0-9a-f]{62}")


@dataclass(frozen=True)
class OutsideFile:
    """A file of this host; what is read of it is checked as a blob is."""

    path: Path

    @property
    def url(self) -> str:
        """Where it is."""
        return self.path.as_uri()

    def read(self, sha256: str) -> Iterator[bytes]:
        """Yields its bytes; FileNotFoundError if it isn't there, BadArtifact if it is not a regular file."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb", buffering=0) as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise BadArtifact(f"{self.path} is not a regular file")
                while part := file.read(CHUNK_BYTES):
                    yield part
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreUnreachable(f"{self.path} can't be read: {error.strerror}") from error

    def find(self, sha256: str) -> Blob | None:
        """Returns its size, None if it isn't there."""
        try:
            return Blob(sha256, self.path.stat().st_size)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnreachable(f"{self.path} can't be read: {error.strerror}") from error


@dataclass(frozen=True)
class OutsideObject:
    """What a URL names; what is read of it is checked as a blob is. Its URL is the root of `store`."""

    store: ObjectBlobs

    @property
    def url(self) -> str:
        """Where it is."""
        return self.store.url

    def read(self, sha256: str) -> Iterator[bytes]:
        """Yields its bytes; FileNotFoundError if it isn't there."""
        return self.store.read_path(self.store.root)

    def find(self, sha256: str) -> Blob | None:
        """Returns its size, None if it isn't there."""
        return self.store.find_path(sha256, self.store.root)


def open_outside(url: str, credential: Credential | None, timeout_s: float) -> BlobReader:
    """Returns what a URL names: a file, or for a blob its store, so that folders can be read too."""
    try:
        check_url(url)
    except ValueError as error:
        raise BadArtifact(str(error)) from None
    in_a_store = _IN_A_STORE.fullmatch(url)
    root = in_a_store["root"] if in_a_store else url
    path = local_path(root)
    if path is not None:
        return FileBlobs(path) if in_a_store else OutsideFile(path)
    opened = open_object_blobs(root, credential, timeout_s)
    return opened if in_a_store else OutsideObject(opened)
