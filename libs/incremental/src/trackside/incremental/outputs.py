"""Writes files that others read meanwhile: whole, read back, and renamed over the one that was there.

A reader sees the old file or the new one, never a part of either, whenever the writer is killed. A killed
writer leaves a temporary file in the same folder, which the next writer there removes: a lock tells whether
the writer of one still runs.
"""

import errno
import fcntl
import hashlib
import io
import os
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

from trackside.artifacts.blobs.credentials import Credential
from trackside.artifacts.blobs.file_blobs import sync_folder
from trackside.artifacts.blobs.object_blobs import S3, ObjectBlobs, open_object_blobs
from trackside.artifacts.blobs.urls import local_path
from trackside.artifacts.errors import (
    AccessRefused,
    ArtifactError,
    BucketMissing,
    CredentialMissing,
    StoreFull,
)
from trackside.artifacts.opening import load_credentials
from trackside.artifacts.settings import StoreSettings
from trackside.contracts.tasks.artifacts import check_url
from trackside.eventlog.clock import monotonic_s
from trackside.sdk.in_task.channel import CodedError

CHUNK_BYTES = 2**20
FILE_MODE = 0o644
"""The mode of a new file; one that is replaced keeps its own."""
PREFIX, SUFFIX = ".trackside-", ".tmp"
"""What the names of temporary files begin and end with."""
ORDER = ".trackside-order-"
"""What the name of a file begins with that has the time of the last writer of another one, in its folder."""
DIGITS = 20
LOCK_S = 10.0
"""How long a writer waits for another one that has locked the file."""
LOOK_S = 0.02
MAX_TRIES = 5
"""How often an object is written that another writer has replaced since its time was read."""
TIME = "trackside-time-ms"
"""The metadata of an object that has the time of its writer."""
EXPECTED = "expected an absolute path, file:///path or s3://bucket/key"
_CODES = {
    errno.ENOSPC: ("disk_full", "make room there"),
    errno.EDQUOT: ("disk_full", "raise the quota of this user, or make room there"),
    errno.EACCES: ("no_permission", "let the user that the worker runs as write there"),
    errno.EPERM: ("no_permission", "let the user that the worker runs as write there"),
    errno.EROFS: ("no_permission", "mount the file system so that it can be written"),
    errno.EISDIR: ("not_a_file", "name a file, not a folder"),
    errno.ENOTDIR: ("not_a_file", "a part of the path is a file: name another one"),
    errno.ELOOP: ("not_a_file", "the path is a link that leads to itself: name another one"),
    errno.ENAMETOOLONG: ("bad_url", "choose a shorter name"),
}


class OutputError(CodedError):
    """A file can't be written; what was there before is as it was.

    `code` is `disk_full`, `no_permission`, `not_a_file`, `bad_url`, `bucket_missing`, `credential_missing`,
    `unreachable`, `busy`, `damaged`, `superseded` or `bad_parameters`.
    """


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was read back after it was written: its digest, and its size in bytes."""

    url: str
    sha256: str
    size_bytes: int


class _SourceError(Exception):
    """What is to be written can't be read; its cause says why."""


def named_credential(name: str | None) -> Credential | None:
    """Returns the credential of this host that a record names; OutputError if the host doesn't have it."""
    try:
        return load_credentials(StoreSettings()).get(name) if name else None
    except CredentialMissing as error:
        raise OutputError("credential_missing", str(error)) from None


def write_output(url: str, credential: Credential | None, chunks: Iterable[bytes]) -> WrittenFile:
    """Writes a file, by its path or URL, over what is there; folders on its path are created.

    Returns once it would outlast a power cut. Raises OutputError, and what `chunks` raises.
    """
    path = output_path(url)
    if path is not None:
        return write_file(path, url, chunks)
    return write_object(url, open_output_store(url, credential), chunks)


def open_output_store(url: str, credential: Credential | None) -> ObjectBlobs:
    """Returns the object store of a URL; its root is the path that the URL names."""
    return open_object_blobs(url, credential, StoreSettings().store_timeout_s)


def output_path(url: str) -> Path | None:
    """Returns the path of a URL on this host, None for one of an object store; OutputError for another."""
    try:
        check_url(url)
    except PydanticCustomError as error:
        raise OutputError("bad_url", f"{error.message()}") from None
    path = local_path(url)
    if path is None and urlsplit(url).scheme not in S3:
        raise OutputError("bad_url", f"{url} can't be written: {EXPECTED}")
    if "\0" in url or (path is not None and ".." in path.parts):
        raise OutputError("bad_url", f"{url!r} is not a path of a file: {EXPECTED}, without `..`")
    if url.endswith("/"):
        raise OutputError("not_a_file", f"{url} is the URL of a folder: name a file in it")
    return path


def write_file(
    path: Path,
    url: str,
    chunks: Iterable[bytes],
    mode: int | None = None,
    time_ms: int | None = None,
    order: Path | None = None,
) -> WrittenFile:
    """Writes a file of this host, see write_output; with `mode`, or that of the file it replaces.

    With `time_ms` it isn't replaced if it was written with a later time: a writer that was suspended while
    another one wrote the next version changes nothing. `order` is the file that has that time, by default one
    in the same folder.
    """
    with output_errors(url):
        path = Path(os.path.realpath(path))  # a link stays, and what it leads to is replaced
        _make_folders(path.parent)
        mode = _mode_of(path) if mode is None else mode
        remove_leftovers(path.parent)
        temporary, file = _create(path.parent)
    try:
        with file:
            digest, size = hashlib.sha256(), 0
            for part in _joined(chunks):
                digest.update(part)
                size += len(part)
                with output_errors(url):
                    _write(file, part)
            with output_errors(url):
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
                file.seek(0)
                _compare(url, digest.hexdigest(), hashlib.file_digest(file, "sha256").hexdigest())
                with nullcontext() if time_ms is None else in_order(order or order_of(path), url, time_ms):
                    temporary.replace(path)
                sync_folder(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()
    return WrittenFile(url, digest.hexdigest(), size)


def remove_leftovers(folder: Path) -> None:
    """Removes the temporary files of writers that don't run any more."""
    for path in folder.glob(f"{PREFIX}*{SUFFIX}"):
        with suppress(OSError), path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _create(folder: Path) -> tuple[Path, io.FileIO]:
    """Creates a temporary file that is locked while its writer runs."""
    while True:
        path = folder / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
        file = path.open("x+b", buffering=0)  # a buffer would be written by close
        with suppress(OSError):  # some file systems have no locks: nothing is removed there
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return path, file
        file.close()  # another writer took it for a leftover before it was locked


def order_of(path: Path) -> Path:
    """Returns the file that has the time of the last writer of a file or folder, next to it."""
    return path.parent / f"{ORDER}{hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]}"


@contextmanager
def in_order(order: Path, url: str, time_ms: int, *, is_last: bool = False) -> Iterator[None]:
    """Holds the lock of an output for a block that replaces it; OutputError if it has a later time.

    A block that is the last one always runs, and leaves a time that is later than all before.
    """
    with io.FileIO(os.open(order, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE), "r+") as file:
        _lock(file, url)
        found = file.read(DIGITS).decode(errors="replace")
        if is_last:
            time_ms = max(time_ms, int(found) if found.isdecimal() else 0) + 1
        elif found.isdecimal() and int(found) > time_ms:
            message = f"{url} {_superseded(int(found), time_ms)} {order} if a clock was wrong"
            raise OutputError("superseded", message)
        os.pwrite(file.fileno(), b"%0*d" % (DIGITS, time_ms), 0)  # first: else it would be lost by a kill
        yield


def _superseded(found_ms: int, time_ms: int) -> str:
    return f"was written with a later time ({found_ms} ms, this one has {time_ms}): it stays; remove"


def _lock(file: io.FileIO, url: str) -> None:
    deadline = monotonic_s() + LOCK_S
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic_s() >= deadline:
                raise OutputError(
                    "busy", f"{url} can't be written: another writer has held its lock for {LOCK_S:g} s"
                ) from None
            time.sleep(LOOK_S)
        except OSError:
            return None  # a file system without locks


def _joined(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the same bytes in parts that are worth a call of the system."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        if len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


def _write(file: io.FileIO, part: bytes) -> None:
    left = memoryview(part)
    while left:
        left = left[file.write(left) :]


def _make_folders(folder: Path) -> None:
    """Creates a folder and those above it, so that they outlast a power cut."""
    if not folder.exists():
        _make_folders(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def _mode_of(path: Path) -> int:
    """Returns the mode of the file that is replaced; raises OSError if it isn't one."""
    try:
        found = path.stat().st_mode
    except FileNotFoundError:
        return FILE_MODE
    if not stat.S_ISREG(found):
        raise IsADirectoryError(errno.EISDIR, "not a regular file")
    return stat.S_IMODE(found)


def write_object(
    url: str, store: ObjectBlobs, chunks: Iterable[bytes], time_ms: int | None = None
) -> WrittenFile:
    """Writes the object that is the root of a store, see write_output.

    With `time_ms` it isn't replaced if it was written with a later time, see write_file: the object has its
    time as metadata, and is replaced only if it is still the one whose time was read. `chunks` may then be
    read more than once. The store has to support If-Match and If-None-Match.
    """
    if time_ms is None:
        return _write_object(url, store, chunks, {})
    for tries in count(1):
        with output_errors(url):
            before = etag, found = _version_of(store)
        if found.isdecimal() and int(found) > time_ms:
            message = f"{url} {_superseded(int(found), time_ms)} it if a clock was wrong"
            raise OutputError("superseded", message)
        condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        try:
            return _write_object(url, store, chunks, {**condition, "Metadata": {TIME: str(time_ms)}})
        except OutputError:
            with output_errors(url):
                after = _version_of(store)
            if after == before or tries == MAX_TRIES:  # it was no other writer
                raise
    raise AssertionError("it returns or raises")


def _version_of(store: ObjectBlobs) -> tuple[str, str]:
    """Returns the ETag of an object, another one for other bytes, and its time; empty if it isn't there."""
    bucket, _, key = store.root.partition("/")
    try:
        with store.errors():
            found = store.files.call_s3("head_object", Bucket=bucket, Key=key)
    except FileNotFoundError:
        return "", ""
    return found["ETag"], (found.get("Metadata") or {}).get(TIME, "")


def _write_object(
    url: str, store: ObjectBlobs, chunks: Iterable[bytes], request: Mapping[str, Any]
) -> WrittenFile:
    if "/" not in store.root:
        raise OutputError("not_a_file", f"{url} is a bucket: name an object in it, such as {url}/model")
    digest, size = hashlib.sha256(), 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        try:
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                yield chunk
        except Exception as error:
            raise _SourceError from error  # so that it isn't taken for an error of the output

    try:
        with output_errors(url):
            store.write_path(store.root, counted(), **request)
            read_back = hashlib.sha256()
            for part in store.read_path(store.root):
                read_back.update(part)
    except _SourceError as error:
        raise (error.__cause__ or error) from None
    _compare(url, digest.hexdigest(), read_back.hexdigest())
    return WrittenFile(url, digest.hexdigest(), size)


def _compare(url: str, written: str, read_back: str) -> None:
    if written != read_back:
        raise OutputError(
            "damaged",
            f"{url}: the bytes that were written have the SHA-256 {written}, read back {read_back}: see that "
            "the disk is in order and that there is no other writer",
        )


@contextmanager
def output_errors(url: str) -> Iterator[None]:
    """Raises what a file system or a store says as OutputError."""
    try:
        yield
    except ArtifactError as error:
        raise OutputError(_code_of(error), f"{url} can't be written: {error}") from None
    except OSError as error:
        code, hint = _CODES.get(
            error.errno or 0, ("unreachable", "see that its disk is there, and try again")
        )
        raise OutputError(code, f"{url} can't be written ({error.strerror or error}): {hint}") from error


def _code_of(error: ArtifactError) -> str:
    codes = {StoreFull: "disk_full", AccessRefused: "no_permission", BucketMissing: "bucket_missing"}
    return codes.get(type(error), "unreachable")
