"""Where snapshots of the past are stored: a folder next to the log, or the database of the read models."""

import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Protocol

from trackside.eventlog.log import TopicPartition

SUFFIX = ".past"
DRAFT = ".draft"


class StoreUnusableError(Exception):
    """The store of snapshots can't be read or written now; the message has the reason."""


class PastStore(Protocol):
    """Bytes by partition and offset. All methods raise StoreUnusableError."""

    async def positions(self, place: TopicPartition) -> list[int]:
        """Lists the offsets of the snapshots of a partition, in order."""
        ...

    async def read(
        self, place: TopicPartition, position: int, start: int = 0, length: int = -1
    ) -> bytes | None:
        """Returns bytes of a snapshot from `start` on, all without a `length`; None if there is none."""
        ...

    async def write(self, place: TopicPartition, position: int, octets: bytes) -> None:
        """Writes a snapshot in one step, in place of one of this offset."""
        ...

    async def remove(self, place: TopicPartition, position: int) -> None:
        """Removes a snapshot, if there is one."""
        ...

    def locked(self) -> AbstractAsyncContextManager[bool]:
        """Locks the store for one writer; yields False if another one has it."""
        ...


class FolderPastStore:
    """Snapshots in files `<topic>-<partition>/<offset>.past`, readable by their owner only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def positions(self, place: TopicPartition) -> list[int]:
        """Lists the offsets of the files of a partition, in order."""
        with _usable():
            names = [path.stem for path in self._folder(place).glob(f"*{SUFFIX}")]
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    async def read(
        self, place: TopicPartition, position: int, start: int = 0, length: int = -1
    ) -> bytes | None:
        """Returns bytes of a file; None if it does not exist."""
        with _usable():
            try:
                with self._path(place, position).open("rb") as file:
                    file.seek(start)
                    return file.read(length)
            except FileNotFoundError:
                return None

    async def write(self, place: TopicPartition, position: int, octets: bytes) -> None:
        """Writes a file next to its place, then renames it."""
        path = self._path(place, position)
        draft = path.with_suffix(DRAFT)
        with _usable():
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                draft.write_bytes(octets)
                draft.replace(path)
            except OSError:
                draft.unlink(missing_ok=True)
                raise

    async def remove(self, place: TopicPartition, position: int) -> None:
        """Removes a file."""
        with _usable():
            self._path(place, position).unlink(missing_ok=True)

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[bool]:
        """Locks the folder, and removes what a killed writer has left in it."""
        with _usable():
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            with _usable():
                for path in self.folder.glob(f"*/*{DRAFT}"):
                    path.unlink(missing_ok=True)
            yield True
        finally:
            os.close(handle)

    def _folder(self, place: TopicPartition) -> Path:
        return self.folder / f"{place[0]}-{place[1]}"

    def _path(self, place: TopicPartition, position: int) -> Path:
        return self._folder(place) / f"{position:012d}{SUFFIX}"


@contextmanager
def _usable() -> Iterator[None]:
    """Translates errors of the file system."""
    try:
        yield
    except OSError as error:
        raise StoreUnusableError(f"{error.filename or 'the folder'}: {error.strerror or error}") from error
