"""Blobs in a folder of a file system: written under a temporary name, synced, read back, renamed."""

import errno
import hashlib
import io
import os
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from trackside.artifacts.blobs.blobs import (
    BLOBS,
    CHUNK_BYTES,
    UNFINISHED,
    Blob,
    Unfinished,
    Written,
    blob_path,
    is_digest,
)
from trackside.artifacts.blobs.source_files import OpenFile, SourceFile, open_source
from trackside.artifacts.errors import ArtifactChanged, StoreFull, StoreUnreachable

SMALL_BYTES = CHUNK_BYTES
"""Up to this size a file is copied by one thread: to start others would take longer."""
COPY_BYTES = 2**30
"""How much one call of the system copies at most."""
MAX_THREADS = 16
"""How many files are synced at once: the disk writes them together."""
READ_ONLY = 0o444
NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class FileBlobs:
    """The blobs below a folder, which may be on a disk that several hosts share."""

    root: Path

    @property
    def url(self) -> str:
        """Where it is."""
        return self.root.as_uri()

    def put(self, sources: Sequence[SourceFile]) -> list[Written]:
        """Saves sources, see BlobStore."""
        with self._errors():
            if not (self.root / UNFINISHED).is_dir():
                # The root isn't made: where a disk isn't mounted, its files would go to another one.
                for folder in (self.root / "blobs", self.root / BLOBS, self.root / UNFINISHED):
                    folder.mkdir(mode=0o700, exist_ok=True)
        if len(sources) == 1:
            written = [self._put(sources[0])]
            with self._errors():
                sync_folder(self._path(written[0].sha256).parent)
            return written
        with ThreadPoolExecutor(max(1, min(MAX_THREADS, len(sources)))) as threads:
            written = _results([threads.submit(self._put, each) for each in sources])
            with self._errors():
                for _ in threads.map(sync_folder, {self._path(each.sha256).parent for each in written}):
                    pass
        return written

    def read(self, sha256: str) -> Iterator[bytes]:
        """Yields the bytes of a blob, see BlobStore."""
        with self._errors(), self._path(sha256).open("rb", buffering=0) as file:
            while part := file.read(CHUNK_BYTES):
                yield part

    def find(self, sha256: str) -> Blob | None:
        """Returns the size and the age of a blob, see BlobStore."""
        try:
            with self._errors():
                found = self._path(sha256).stat()
        except FileNotFoundError:
            return None
        return Blob(sha256, found.st_size, found.st_mtime_ns // NS_PER_MS)

    def list_blobs(self) -> Iterator[Blob]:
        """Yields all blobs, sorted by digest."""
        with self._errors():
            self._check_root()
            for folder in _entries(self.root / BLOBS):
                for path in _entries(folder):
                    if is_digest(path.name) and (found := self.find(path.name)):
                        yield found

    def delete(self, sha256: str, saved_before_ms: int) -> bool:
        """Deletes a blob, see BlobStore.

        It is renamed first: a writer that saves the same bytes meanwhile finds it gone, and writes it again.
        """
        path, aside = self._path(sha256), self._temporary()
        with self._errors():
            try:
                path.rename(aside)
            except FileNotFoundError:
                return False
            if aside.stat().st_mtime_ns // NS_PER_MS >= saved_before_ms:
                aside.replace(path)
                return False
            aside.unlink()
        return True

    def list_unfinished(self) -> Iterator[Unfinished]:
        """Yields what writers left, see BlobStore."""
        with self._errors():
            self._check_root()
            for path in _entries(self.root / UNFINISHED):
                with suppress(FileNotFoundError):
                    found = path.stat()
                    yield Unfinished(path.name, found.st_size, found.st_mtime_ns // NS_PER_MS)

    def delete_unfinished(self, name: str) -> None:
        """Deletes one of them, see BlobStore."""
        with self._errors():
            (self.root / UNFINISHED / Path(name).name).unlink(missing_ok=True)

    def _put(self, source: SourceFile) -> Written:
        """Saves one source; the folder of its blob is not synced yet."""
        if source.digest is not None and (found := self._reuse(source.digest)):
            return Written(found.sha256, found.size_bytes)
        with open_source(source) as opened:
            temporary = self._temporary()
            try:
                with self._errors():
                    digest = self._link(opened, temporary) or self._copy(opened, temporary)
                    if not self._reuse(digest):
                        blob = self._path(digest)
                        if not blob.parent.is_dir():
                            blob.parent.mkdir(mode=0o700, exist_ok=True)
                            sync_folder(blob.parent.parent)
                        temporary.replace(blob)
            finally:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
        return Written(digest, opened.size_bytes, opened.is_executable)

    def _reuse(self, sha256: str) -> Blob | None:
        """Returns a blob that is there and has its digest, and makes it as young as a new one."""
        try:
            with self._errors():
                os.utime(self._path(sha256))
                with self._path(sha256).open("rb", buffering=0) as file:
                    intact = _digest(file) == sha256
        except FileNotFoundError:
            return None
        return self.find(sha256) if intact else None

    def _link(self, opened: OpenFile, temporary: Path) -> str | None:
        """Returns a file that may be shared a name in the store; None if it has to be copied."""
        if not opened.source.give or opened.before is None or opened.before.st_nlink > 1:
            return None
        try:
            os.link(opened.source.full_path, temporary, follow_symlinks=False)
        except OSError:  # another file system, or one without links
            return None
        handle = opened.file.fileno()
        if not os.path.samestat(temporary.lstat(), opened.before):
            raise ArtifactChanged(f"{opened.source.full_path} was replaced while it was saved")
        digest = opened.hash()
        os.fchmod(handle, READ_ONLY)
        os.utime(handle)
        os.fsync(handle)
        return digest

    def _copy(self, opened: OpenFile, temporary: Path) -> str:
        """Copies a file under a temporary name and reads it back; returns its digest."""
        is_small = opened.before is None or opened.size_bytes <= SMALL_BYTES
        with temporary.open("x+b", buffering=0) as target:
            os.fchmod(target.fileno(), READ_ONLY)
            digest, read_back = (_copy_small if is_small else _copy_large)(opened, target)
        if read_back != digest:
            raise ArtifactChanged(
                f"{opened.source.full_path} changed while it was saved, or the disk of {self.url} is "
                "faulty: what was written has another digest when it is read back"
            )
        return digest

    def _path(self, sha256: str) -> Path:
        return self.root / blob_path(sha256)

    def _temporary(self) -> Path:
        return self.root / UNFINISHED / f"{os.getpid()}-{secrets.token_hex(8)}"

    def _check_root(self) -> None:
        if not self.root.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.root))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raises what the file system says as errors of the store, but for a blob that isn't there."""
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and self.root.is_dir():
                raise
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreFull(
                    f"the disk of the store {self.url} is full ({error.strerror}): make room there, for "
                    "example with `trackside artifacts gc`"
                ) from error
            raise StoreUnreachable(
                f"the store {self.url} can't be used ({error.strerror or error}): see that the folder "
                "exists, and that this user may write there"
            ) from error


def _copy_small(opened: OpenFile, target: io.FileIO) -> tuple[str, str]:
    """Copies in this thread; returns the digests of what was read and of what was read back."""
    digest = opened.hash()
    opened.file.seek(0)
    _write(target, opened.file.read())
    os.fsync(target.fileno())
    return digest, _digest(target)


def _copy_large(opened: OpenFile, target: io.FileIO) -> tuple[str, str]:
    """Copies while another thread hashes the file, and reads back while another one syncs."""
    with ThreadPoolExecutor(2) as threads:
        hashing = threads.submit(opened.hash)
        offset = 0
        while count := os.sendfile(target.fileno(), opened.file.fileno(), offset, COPY_BYTES):
            offset += count
        syncing = threads.submit(os.fsync, target.fileno())
        read_back = _digest(target)
        syncing.result()
        return hashing.result(), read_back


def _write(target: io.FileIO, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[target.write(left) :]


def _digest(file: io.FileIO) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Returns once the names in a folder would outlast a power cut; raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _results(waiting: Sequence[Future[Written]]) -> list[Written]:
    try:
        return [each.result() for each in waiting]
    except BaseException:
        for each in waiting:
            each.cancel()
        raise
