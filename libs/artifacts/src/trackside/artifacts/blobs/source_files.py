"""Files that are saved: opened without following links, and checked to be the same file at the end."""

import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trackside.artifacts.errors import ArtifactChanged, BadArtifact, PathOutsideStore

COPY_BYTES = 2**20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a named pipe blocks nothing
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True)
class SourceFile:
    """A file to save, or bytes.

    With `below`, the path is relative to that folder, and no part of it may be a link. `digest` is what the
    caller knows its SHA-256 to be; a file that has another one has changed. With `give` the file will not be
    changed any more, only removed, by the caller: the store may share its bytes and make it read-only, which
    spares a copy on the same file system.
    """

    path: Path
    below: Path | None = None
    content: bytes | None = None
    digest: str | None = None
    give: bool = False

    @property
    def full_path(self) -> Path:
        """Where the file is."""
        return self.path if self.below is None else self.below / self.path


@dataclass(frozen=True)
class OpenFile:
    """A source that is open for reading; `before` is the state of its file when it was opened."""

    source: SourceFile
    file: io.FileIO | io.BytesIO
    before: os.stat_result | None

    @property
    def size_bytes(self) -> int:
        """How many bytes it has."""
        if self.before is None:
            return len(self.source.content or b"")
        return self.before.st_size

    @property
    def is_executable(self) -> bool:
        """Whether its owner may execute it."""
        return self.before is not None and bool(self.before.st_mode & stat.S_IXUSR)

    def hash(self) -> str:
        """Reads all of it; returns its SHA-256.

        ArtifactChanged if it is not as it was when it was opened, or not what the caller knows.
        """
        try:
            digest = hashlib.file_digest(self.file, "sha256").hexdigest()
        except OSError as error:
            raise _unreadable(self.source.full_path, error) from error
        return self._checked(digest)

    def copy_to(self, target: io.FileIO) -> str:
        """Writes all of it to a file while it is read; returns its SHA-256.

        Errors are those of hash, and an OSError if the target can't be written. A file that grows
        meanwhile isn't followed: it would fill the disk.
        """
        digest = hashlib.sha256()
        while self.file.tell() <= self.size_bytes and (part := self._read()):
            digest.update(part)
            left = memoryview(part)
            while left:
                left = left[target.write(left) :]
        return self._checked(digest.hexdigest())

    def _read(self) -> bytes:
        try:
            return self.file.read(COPY_BYTES)
        except OSError as error:
            raise _unreadable(self.source.full_path, error) from error

    def _checked(self, digest: str) -> str:
        """Returns the digest of what was read, unless the file has changed meanwhile."""
        name = self.source.full_path
        if self.before is not None and self._changed(self.before):
            raise ArtifactChanged(
                f"{name} changed while it was saved: write it completely, or under another name, before it "
                "is saved"
            )
        if self.source.digest not in (None, digest):
            raise ArtifactChanged(
                f"{name} has the digest {digest}, expected {self.source.digest}: it changed after it was "
                "handed over"
            )
        return digest

    def _changed(self, before: os.stat_result) -> bool:
        return self.file.tell() != before.st_size or _state(os.fstat(self.file.fileno())) != _state(before)


def _state(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


@contextmanager
def open_source(source: SourceFile) -> Iterator[OpenFile]:
    """Opens a source; PathOutsideStore for a link, BadArtifact for what isn't a file that can be read."""
    if source.content is not None:
        yield OpenFile(source, io.BytesIO(source.content), None)
        return
    try:
        handle = _open(source)
    except OSError as error:
        raise _unreadable(source.full_path, error) from error
    with io.FileIO(handle, "r") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise BadArtifact(f"{source.full_path} is {kind_of(found.st_mode)}: expected a regular file")
        yield OpenFile(source, file, found)


def _open(source: SourceFile) -> int:
    if source.below is None:
        return os.open(source.path, _READ)
    folder = os.open(source.below, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    *above, name = source.path.parts
    try:
        for part in above:
            inner = os.open(part, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        return os.open(name, _READ, dir_fd=folder)
    finally:
        os.close(folder)


def _unreadable(path: Path, error: OSError) -> PathOutsideStore | BadArtifact:
    if path.is_symlink() or any(each.is_symlink() for each in path.parents):
        return PathOutsideStore(f"{path} is a link, or below one: save the file that it leads to")
    return BadArtifact(f"{path} can't be read ({error.strerror}): expected a regular file")


def kind_of(mode: int) -> str:
    """Returns what a file of this mode is, for messages."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFLNK: "a link",
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "a regular file")
