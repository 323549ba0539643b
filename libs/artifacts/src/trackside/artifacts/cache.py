"""The artifacts that tasks of a host have read: by digest, read-only, the least recently used go first.

Processes share a cache. Each entry has a file that is locked (flock): shared while the entry is in use,
exclusively by the one process that fetches or removes it. The system releases those of a process that dies.
"""

import errno
import fcntl
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from trackside.artifacts.errors import ArtifactDamaged, CacheUnusable
from trackside.artifacts.store import ReportBytes, Store, ignore_bytes
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE, ArtifactReference

FULL = (errno.ENOSPC, errno.EDQUOT)
SEALED_S = 946_684_800
"""The time of change of all that is cached, 2000-01-01: what was changed since has another one."""
RETRY_S = 0.05
MAX_TRIES = 100
"""How often an entry is tried that a task has changed and others still use."""
MAX_ENTRIES = 5_000
"""How many artifacts a cache keeps: small ones take 8 KiB of a disk each, and evictions read the list."""
SIZE_BYTES = 20
"""How long the size of an entry may be, in digits, in the file that is locked."""


@dataclass(frozen=True)
class CacheLease:
    """An artifact in the cache: its file or folder is there, unchanged, until this is released."""

    path: Path
    handle: int
    after: Callable[[], None]

    def release(self) -> None:
        """Lets the cache remove it; call it once."""
        release_all([self])

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def release_all(leases: Iterable[CacheLease]) -> None:
    """Lets the cache remove what was leased, all at once; call it once."""
    leases = list(leases)
    for lease in leases:
        os.close(lease.handle)
    for after in {lease.after for lease in leases}:  # each time it reads all that the cache has
        after()


@dataclass(frozen=True)
class Cache:
    """Artifacts below a folder: at most `max_bytes` and so many, and more only while all of it is in use."""

    folder: Path
    max_bytes: int
    max_entries: int = MAX_ENTRIES

    def lease(
        self, reference: ArtifactReference, store: Store, report: ReportBytes = ignore_bytes
    ) -> CacheLease:
        """Returns an artifact, fetched unless it is here; waits while another process fetches it.

        Errors as those of `Store.get`; CacheUnusable if its disk is full and nothing can be removed, or
        can't be written.
        """
        name = _name_of(reference)
        entry = self.folder / "entries" / name
        with self._errors():
            for folder in (self.folder, entry.parent, self.folder / "locks", self.folder / "tmp"):
                folder.mkdir(mode=0o700, exist_ok=True)
            for _ in range(MAX_TRIES):
                handle = self._lock(name)
                try:
                    if _is_sealed(entry, reference.size_bytes):
                        os.utime(handle)
                        lease, handle = CacheLease(entry, handle, self.evict), -1
                        return lease
                    if _try_lock(handle, fcntl.LOCK_EX):
                        self._fetch(reference, store, entry, report)
                        os.truncate(handle, 0)
                        os.pwrite(handle, str(reference.size_bytes).encode(), 0)
                        continue
                finally:
                    if handle >= 0:
                        os.close(handle)
                time.sleep(RETRY_S)  # another process is about to fetch it, or uses what a task has changed
        raise ArtifactDamaged(
            f"{entry} was changed by a task, and other tasks still use it: try again when they have ended"
        )

    def fetch(self, reference: ArtifactReference, store: Store, report: ReportBytes = ignore_bytes) -> None:
        """Fetches an artifact for another process, which holds it then; errors as those of `lease`."""
        os.close(self.lease(reference, store, report).handle)

    def hold(self, reference: ArtifactReference) -> CacheLease | None:
        """Returns an artifact that is here, without waiting; None if it isn't, or is being fetched."""
        name = _name_of(reference)
        entry, lock = self.folder / "entries" / name, self.folder / "locks" / name
        with self._errors():
            try:
                handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
            except FileNotFoundError:
                return None
            try:
                shared = _try_lock(handle, fcntl.LOCK_SH) and _is_there(handle, lock)
                if not shared or not _is_sealed(entry, reference.size_bytes):
                    return None
                os.utime(handle)
                lease, handle = CacheLease(entry, handle, self.evict), -1
                return lease
            finally:
                if handle >= 0:
                    os.close(handle)

    def evict(self, room_bytes: int = 0) -> None:
        """Removes entries that are not in use until so many bytes fit, the least recently used first."""
        with self._errors():
            entries = sorted(self._entries(), key=lambda each: each.used_ns)
            total, count = sum(each.size_bytes or 0 for each in entries), len(entries)
            for each in entries:
                is_rest = each.size_bytes is None  # of a process that died while it fetched
                is_full = total + room_bytes > self.max_bytes or count > self.max_entries
                if (is_rest or is_full) and self._remove(each.name, is_rest):
                    total, count = total - (each.size_bytes or 0), count - 1

    def _fetch(self, reference: ArtifactReference, store: Store, entry: Path, report: ReportBytes) -> None:
        """Fetches an entry that this process has locked; a part of it is never where entries are."""
        own = self.folder / "tmp" / entry.name
        _delete(own)
        _delete(entry)
        self.evict(reference.size_bytes)
        for is_last in (False, True):
            own.mkdir()
            try:
                store.get(reference, own / "content", report)
                (own / "content").rename(entry)
                _seal(entry)
                return
            except OSError as error:
                if is_last or error.errno not in FULL:
                    raise
                Cache(self.folder, 0).evict()
            finally:
                _delete(own)

    def _entries(self) -> Iterator["_CacheEntry"]:
        """Yields what the cache has, by the files that are locked."""
        for path in (self.folder / "locks").iterdir():
            with suppress(FileNotFoundError):
                size = path.read_text()
                yield _CacheEntry(path.name, int(size) if size.isdigit() else None, path.stat().st_mtime_ns)

    def _remove(self, name: str, is_rest: bool) -> bool:
        """Removes an entry unless it is in use, or a rest that was completed since it was seen."""
        lock = self.folder / "locks" / name
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not _try_lock(handle, fcntl.LOCK_EX) or not _is_there(handle, lock):
                return False
            if is_rest and os.pread(handle, SIZE_BYTES, 0).isdigit():
                return False
            _delete(self.folder / "entries" / name)
            _delete(self.folder / "tmp" / name)
            lock.unlink()
            return True
        finally:
            os.close(handle)

    def _lock(self, name: str) -> int:
        """Opens the lock of an entry and shares it; waits while a process fetches or removes the entry."""
        lock = self.folder / "locks" / name
        while True:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_SH)
            if _is_there(handle, lock):
                return handle
            os.close(handle)  # removed while this process waited

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            what = "can't be used"
            advice = "see that this user may write there"
            if error.errno in FULL:
                what = "has no room, although all that is not in use was removed from it"
                advice = "make room on its disk"
            raise CacheUnusable(
                f"the cache of artifacts in {self.folder} {what} ({error.strerror or error}): {advice}"
            ) from error


@dataclass(frozen=True)
class _CacheEntry:
    """An entry: its name, its size in bytes unless it is not complete, and when it was last used."""

    name: str
    size_bytes: int | None
    used_ns: int


def _name_of(reference: ArtifactReference) -> str:
    """Returns the name of an entry: a folder and its manifest have the same digest."""
    return reference.sha256 + ("-folder" if reference.media_type == FOLDER_MEDIA_TYPE else "")


def _try_lock(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_there(handle: int, path: Path) -> bool:
    """Returns whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _tree(path: Path) -> Iterator[Path]:
    """Yields all files and folders of an entry, folders after what is in them."""
    if path.is_dir() and not path.is_symlink():
        for inner in path.iterdir():
            yield from _tree(inner)
    yield path


def _seal(entry: Path) -> None:
    """Makes an entry that was just fetched read-only, syncs it, and sets its time of change."""
    for path in _tree(entry):
        if path.is_dir():
            path.chmod(0o555)
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.utime(handle, (SEALED_S, SEALED_S))
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_sealed(entry: Path, size_bytes: int) -> bool:
    """Returns whether an entry is there, and nothing of it was changed since it was fetched."""
    try:
        found = [path.lstat() for path in _tree(entry)]
    except OSError:
        return False
    if any(each.st_mtime_ns != SEALED_S * 10**9 for each in found):
        return False
    return sum(each.st_size for each in found if stat.S_ISREG(each.st_mode)) == size_bytes


def _delete(path: Path) -> None:
    """Removes a file or a folder, whatever modes its folders have."""
    if path.is_dir() and not path.is_symlink():
        for folder, _, _ in os.walk(path):
            Path(folder).chmod(0o700)
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
