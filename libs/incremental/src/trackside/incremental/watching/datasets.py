"""Datasets where they are: a file of this host, or an object of a store."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trackside.artifacts.blobs.blobs import CHUNK_BYTES
from trackside.artifacts.blobs.object_blobs import ObjectBlobs, open_object_blobs
from trackside.artifacts.blobs.urls import local_path
from trackside.artifacts.errors import ArtifactError, CredentialMissing
from trackside.artifacts.opening import load_credentials
from trackside.artifacts.settings import StoreSettings
from trackside.incremental.watching.lines import DatasetError

MISSING, UNREACHABLE = "missing", "unreachable"
WAITED_FOR = frozenset({MISSING, UNREACHABLE})
"""The codes of what may pass by itself."""


@dataclass(frozen=True, slots=True)
class DatasetStamp:
    """What changes with a dataset: its identity if it is another file, its version with each write."""

    identity: str
    version: str
    size: int


class DatasetSource(Protocol):
    """Where the bytes of a dataset are. What it raises is a DatasetError."""

    @property
    def path(self) -> Path | None:
        """Its path on this host; None for an object."""
        ...

    def stamp(self) -> DatasetStamp:
        """Returns what changes with it, as it is now."""
        ...

    def read(self, begin: int = 0) -> Iterator[bytes]:
        """Yields its bytes from one on, in parts of 1 MiB at most."""
        ...


@dataclass(frozen=True, slots=True)
class FileDataset:
    """A regular file of this host, or a link to one."""

    path: Path

    def stamp(self) -> DatasetStamp:
        """Returns inode, time of the last write in ns, and size."""
        with self._errors():
            return self._checked(self.path.stat())

    def read(self, begin: int = 0) -> Iterator[bytes]:
        """Yields its bytes; a FIFO is not waited for."""
        with self._errors():
            handle = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb", buffering=0) as file:
            with self._errors():
                self._checked(os.fstat(handle))
                file.seek(begin)
            while True:
                with self._errors():
                    part = file.read(CHUNK_BYTES)
                if not part:
                    return
                yield part

    def _checked(self, found: os.stat_result) -> DatasetStamp:
        if not stat.S_ISREG(found.st_mode):
            kind = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
            raise DatasetError("not_a_file", f"{self.path} is {kind}: a dataset is a file that grows")
        return DatasetStamp(f"{found.st_dev}:{found.st_ino}", str(found.st_mtime_ns), found.st_size)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            raise DatasetError(MISSING, f"there is no file at {self.path}; it is waited for") from None
        except OSError as error:
            reason = f"{self.path} can't be read: {error.strerror}"
            if error.errno in (errno.EACCES, errno.EPERM):
                hint = "let the user that the worker runs as read it"
                raise DatasetError("no_permission", f"{reason}; {hint}") from None
            raise DatasetError(UNREACHABLE, f"{reason}; it is tried again") from None


@dataclass(frozen=True, slots=True)
class ObjectDataset:
    """An object, which is another one after each write; `store` is what its URL leads to."""

    store: ObjectBlobs

    @property
    def path(self) -> None:
        """No path of this host leads to it."""
        return

    def stamp(self) -> DatasetStamp:
        """Returns its ETag, or when it was written where its store has none, and its size."""
        with self._errors():
            found = self.store.find_path("", self.store.root)
        if found is None:
            raise DatasetError(MISSING, f"there is no object at {self.store.url}; it is waited for")
        version = found.version or str(found.saved_ms)
        return DatasetStamp(version, version, found.size_bytes)

    def read(self, begin: int = 0) -> Iterator[bytes]:
        """Yields its bytes, all of one version."""
        with self._errors():
            for part in self.store.read_path(self.store.root):
                if begin < len(part):
                    yield part[begin:]
                begin = max(0, begin - len(part))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise DatasetError(MISSING, f"there is no object at {self.store.url}; it is waited for") from None
        except ArtifactError as error:
            raise DatasetError(UNREACHABLE, str(error)) from None


def open_dataset(url: str, credential: str | None) -> DatasetSource:
    """Returns the dataset at a path or URL; `credential` is the name of one of this host.

    DatasetError if the host doesn't have that, or the URL can't be one of a dataset.
    """
    if (path := local_path(url)) is not None:
        return FileDataset(path)
    settings = StoreSettings()
    try:
        keys = load_credentials(settings).get(credential) if credential else None
        return ObjectDataset(open_object_blobs(url, keys, settings.store_timeout_s))
    except CredentialMissing as error:
        raise DatasetError("credential_missing", str(error)) from None
    except ArtifactError as error:
        raise DatasetError("bad_url", str(error)) from None
