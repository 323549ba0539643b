"""Blobs in an object store, or in anything else that fsspec reaches: created whole, never changed.

S3 creates an object only if there is none of its name (`If-None-Match`); other protocols write under a
temporary name and move that. The library of a protocol is imported when a store is opened.
"""

import errno
import hashlib
import secrets
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

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
from trackside.artifacts.blobs.credentials import Credential
from trackside.artifacts.blobs.source_files import OpenFile, SourceFile, open_source
from trackside.artifacts.errors import (
    AccessRefused,
    ArtifactChanged,
    ArtifactDamaged,
    ArtifactError,
    BucketMissing,
    StoreFull,
    StoreMissing,
    StoreUnreachable,
)
from trackside.contracts.envelope.redaction import redact

MAX_THREADS = 8
"""How many files are uploaded at once."""
PART_BYTES = 16 * 2**20
MAX_PARTS = 9_000
"""S3 takes 10,000."""
MAX_COPY_BYTES = 5 * 2**30
"""What S3 copies with one request."""
ATTEMPTS = 3
CONNECT_S = 10.0
S3 = ("s3", "s3a")
FULL = ("quotaexceeded", "storagefull", "insufficientstorage", "insufficient storage", "no space left")


@dataclass(frozen=True)
class ObjectBlobs:
    """The blobs below a URL. `files` is the file system of fsspec, `root` its path in it."""

    url: str
    files: Any
    root: str
    secrets: Sequence[str] = field(default=(), repr=False)

    @property
    def is_s3(self) -> bool:
        """Whether it is reached with the protocol of S3."""
        return urlsplit(self.url).scheme in S3

    def put(self, sources: Sequence[SourceFile]) -> list[Written]:
        """Saves sources, see BlobStore."""
        with ThreadPoolExecutor(max(1, min(MAX_THREADS, len(sources)))) as threads:
            waiting = [threads.submit(self._put, each) for each in sources]
            try:
                return [each.result() for each in waiting]
            except BaseException:
                for each in waiting:
                    each.cancel()
                raise

    def read(self, sha256: str) -> Iterator[bytes]:
        """Yields the bytes of a blob, see BlobStore."""
        return self.read_path(self._path(sha256))

    def read_path(self, path: str) -> Iterator[bytes]:
        """Yields the bytes of anything that the protocol reaches; FileNotFoundError if it isn't there."""
        part_bytes = (
            0 if self.url.startswith("http") else PART_BYTES
        )  # 0: at once, for servers that know no ranges
        with self.errors(), self.files.open(path, "rb", block_size=part_bytes) as file:
            while part := file.read(CHUNK_BYTES):
                yield part

    def write_path(self, path: str, parts: Iterable[bytes], **request: Any) -> None:
        """Replaces anything that the protocol reaches, at once: it has all parts, or is as it was.

        `request` are fields of the requests of S3, such as `IfMatch`; one that does not hold raises an error.
        """
        partial = path
        with self.errors():
            if not self.is_s3:
                partial += f".{secrets.token_hex(8)}.tmp"
                self.files.makedirs(path.rpartition("/")[0], exist_ok=True)
            out = self.files.open(partial, "wb", block_size=PART_BYTES, **request)
        try:
            for part in parts:
                with self.errors():
                    out.write(part)
            with self.errors():
                out.close()
                if partial != path:
                    self.files.mv(partial, path)
        except BaseException:
            self._discard(out, partial)
            raise

    def find(self, sha256: str) -> Blob | None:
        """Returns the size and the age of a blob, see BlobStore."""
        return self.find_path(sha256, self._path(sha256))

    def find_path(self, sha256: str, path: str) -> Blob | None:
        """Returns the size and the age of anything that the protocol reaches, None if it isn't there."""
        try:
            with self.errors():
                return _blob(sha256, self.files.info(path))
        except FileNotFoundError:
            return None

    def list_blobs(self) -> Iterator[Blob]:
        """Yields all blobs, see BlobStore; with a request for each first two digits."""
        for folder in self._below(BLOBS):
            for path, found in self._below(f"{BLOBS}/{folder.rpartition('/')[2]}").items():
                name = path.rpartition("/")[2]
                if is_digest(name):
                    yield _blob(name, found)

    def delete(self, sha256: str, saved_before_ms: int) -> bool:
        """Deletes a blob, see BlobStore: one that is saved again in this moment may be lost."""
        found = self.find(sha256)
        if found is None or found.saved_ms >= saved_before_ms:
            return False
        with self.errors():
            self.files.rm_file(self._path(sha256))
        return True

    def list_unfinished(self) -> Iterator[Unfinished]:
        """Yields what writers left, see BlobStore; S3 doesn't say how large it is."""
        if not self.is_s3:
            for path, found in self._below(UNFINISHED).items():
                yield Unfinished(path.rpartition("/")[2], found["size"] or 0, _saved_ms(found))
            return
        bucket, _, key = self.root.partition("/")
        with self.errors():
            uploads = self.files.list_multipart_uploads(bucket)
        for each in uploads:
            if each["Key"].startswith(f"{key}/{BLOBS}/".lstrip("/")):
                yield Unfinished(f"{each['Key']}?{each['UploadId']}", 0, _ms(each["Initiated"]))

    def delete_unfinished(self, name: str) -> None:
        """Deletes one of them, see BlobStore."""
        with self.errors(), suppress(FileNotFoundError):
            if self.is_s3:
                key, _, upload = name.rpartition("?")
                self.files.abort_mpu(self.root.partition("/")[0], key, upload)
            else:
                self.files.rm_file(f"{self.root}/{UNFINISHED}/{name.rpartition('/')[2]}")

    def _put(self, source: SourceFile) -> Written:
        if source.digest is not None and (found := self._reuse(source.digest)):
            return Written(found.sha256, found.size_bytes)
        with open_source(source) as opened:
            digest = opened.hash()
            if not self._reuse(digest):
                self._create(opened, digest)
        return Written(digest, opened.size_bytes, opened.is_executable)

    def _reuse(self, sha256: str) -> Blob | None:
        """Returns a blob that is there and has its digest, and makes it as young as a new one."""
        try:
            with self.errors():
                if not self._refresh(sha256):
                    return None
                if self._digest(sha256) != sha256:
                    self.files.rm_file(self._path(sha256))  # damaged: it would be in the way of a new one
                    return None
        except FileNotFoundError:
            return None
        return self.find(sha256)

    def _refresh(self, sha256: str) -> bool:
        """Makes a blob young again; False if the protocol can't, FileNotFoundError if it isn't there."""
        path = self._path(sha256)
        size = self.files.info(path)["size"]
        if not self.is_s3:
            try:
                self.files.touch(path, truncate=False)
            except (NotImplementedError, TypeError, ValueError):
                return False
        elif size <= MAX_COPY_BYTES:
            bucket, _, key = path.partition("/")
            self.files.call_s3(
                "copy_object", Bucket=bucket, Key=key, CopySource=path, MetadataDirective="REPLACE"
            )
        else:
            self.files.cp_file(path, path)  # in parts
        return True

    def _create(self, opened: OpenFile, digest: str) -> None:
        """Uploads a file and reads it back; another writer of the same bytes may be faster."""
        try:
            with self.errors():
                self._upload(opened, digest)
        except (FileExistsError, StoreUnreachable):
            if self._is_whole(digest):
                return
            raise
        if not self._is_whole(digest):
            raise ArtifactDamaged(
                f"{self.url} returned other bytes for sha256/{digest} than were written: see that the store "
                "is in order, and save it again"
            )

    def _upload(self, opened: OpenFile, digest: str) -> None:
        final = self._path(digest)
        if not self.is_s3:
            path = f"{self.root}/{UNFINISHED}/{secrets.token_hex(16)}"
            for folder in (path, final):
                self.files.makedirs(folder.rpartition("/")[0], exist_ok=True)
            self._write(path, "wb", opened, digest)
            self.files.mv(path, final)
        else:
            self._write(final, "xb", opened, digest)

    def _write(self, path: str, mode: str, opened: OpenFile, digest: str) -> None:
        """Writes a file; nothing of it is left unless it is whole and has its digest."""
        part_bytes = max(PART_BYTES, opened.size_bytes // MAX_PARTS)
        out = self.files.open(path, mode, block_size=part_bytes)
        try:
            copied = hashlib.sha256()
            opened.file.seek(0)
            while part := opened.file.read(CHUNK_BYTES):
                copied.update(part)
                out.write(part)
            if copied.hexdigest() != digest:
                raise ArtifactChanged(f"{opened.source.full_path} changed while it was saved")
            out.close()
        except BaseException:
            self._discard(out, path)
            raise

    def _discard(self, out: Any, path: str) -> None:
        """Ends the writing of a file without creating it."""
        with suppress(Exception):  # the error that led here says more
            if self.is_s3:
                try:
                    out.discard()
                finally:
                    out.closed = True  # else its end is written when it is collected
            else:
                out.close()
                self.files.rm_file(path)

    def _is_whole(self, sha256: str) -> bool:
        try:
            with self.errors():
                return self._digest(sha256) == sha256
        except FileNotFoundError:
            return False

    def _digest(self, sha256: str) -> str:
        digest = hashlib.sha256()
        for part in self.read(sha256):
            digest.update(part)
        return digest.hexdigest()

    def _below(self, folder: str) -> dict[str, dict[str, Any]]:
        """Returns what a folder has, by path; nothing if it isn't there."""
        try:
            with self.errors():
                return {each["name"]: each for each in self.files.ls(f"{self.root}/{folder}", detail=True)}
        except FileNotFoundError:
            return {}

    def _path(self, sha256: str) -> str:
        return f"{self.root}/{blob_path(sha256)}"

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raises what a library raises as errors of the store, without the values of a credential."""
        try:
            yield
        except (ArtifactError, FileExistsError):
            raise
        except FileNotFoundError:
            self._check_bucket()
            raise
        except Exception as error:  # noqa: BLE001 - each library has its own
            raise self._translated(error) from None  # a chain would show what is masked here

    def _check_bucket(self) -> None:
        """Raises StoreUnreachable if what isn't there is the bucket itself."""
        if not self.is_s3:
            return
        bucket = self.root.partition("/")[0]
        try:
            self.files.call_s3("head_bucket", Bucket=bucket)
        except FileNotFoundError:
            raise BucketMissing(f"{self.url} can't be used: there is no bucket {bucket}") from None
        except Exception as error:  # noqa: BLE001 - as above
            if not isinstance(error, PermissionError):  # it may be read and written, but not listed
                raise self._translated(error) from None

    def _translated(self, error: Exception) -> ArtifactError:
        text = f"{type(error).__name__}: {error}"
        for value in self.secrets:
            text = text.replace(value, "[redacted]")
        text = redact(text)
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or _says_full(text):
            return StoreFull(f"the store {self.url} is full ({text}): make room there, or raise its quota")
        if isinstance(error, PermissionError):
            return AccessRefused(
                f"the store {self.url} refuses access ({text}): see that its credential is right and may "
                "read, write, list and delete"
            )
        return StoreUnreachable(
            f"the store {self.url} can't be used ({text}): see that it runs, and try again"
        )


def open_object_blobs(url: str, credential: Credential | None, timeout_s: float) -> ObjectBlobs:
    """Returns the blobs below a URL; StoreMissing if its protocol isn't known or isn't installed."""
    import fsspec  # it takes long to import, and a store in a folder doesn't need it

    protocol = urlsplit(url).scheme
    options = _s3_options(credential, timeout_s) if protocol in S3 else _options(credential)
    try:
        files = fsspec.filesystem(protocol, skip_instance_cache=True, use_listings_cache=False, **options)
    except (ImportError, ValueError) as error:
        raise StoreMissing(f"{url} can't be a store: {redact(str(error))}") from None
    if protocol in S3:
        files.retries = ATTEMPTS
        _expect_nothing(files)
    root = str(files._strip_protocol(url)).rstrip("/")
    return ObjectBlobs(url, files, root, credential.secrets if credential else ())


def _expect_nothing(files: Any) -> None:
    """Sends bytes without waiting until the server asks for them, which has no time limit in this client."""
    from botocore.handlers import add_expect_header

    files.connect().meta.events.unregister("before-call.s3", add_expect_header)


def _options(credential: Credential | None) -> dict[str, Any]:
    if credential is None:
        return {}
    return {name: value.get_secret_value() for name, value in credential.options.items()}


def _s3_options(credential: Credential | None, timeout_s: float) -> dict[str, Any]:
    config = {
        "connect_timeout": min(CONNECT_S, timeout_s),
        "read_timeout": timeout_s,
        "retries": {"max_attempts": 0},  # s3fs tries again itself
    }
    found: dict[str, Any] = {"config_kwargs": config, **_options(credential)}
    if credential is None:
        return found
    values = {
        "key": credential.access_key_id,
        "secret": credential.secret_access_key,
        "token": credential.session_token,
    }
    found |= {name: value.get_secret_value() for name, value in values.items() if value is not None}
    if credential.endpoint_url:
        found["endpoint_url"] = credential.endpoint_url
    if credential.region:
        found["client_kwargs"] = {"region_name": credential.region}
    return found


def _blob(sha256: str, found: dict[str, Any]) -> Blob:
    return Blob(sha256, found["size"] or 0, _saved_ms(found), found.get("ETag") or "")


def _saved_ms(found: dict[str, Any]) -> int:
    times = (found.get(name) for name in ("LastModified", "mtime", "modified", "updated", "created"))
    return next((_ms(each) for each in times if each is not None), 0)


def _ms(time: datetime | float | str) -> int:
    if isinstance(time, str):
        time = datetime.fromisoformat(time)
    return int((time.timestamp() if isinstance(time, datetime) else time) * 1_000)


def _says_full(text: str) -> bool:
    return any(each in text.lower() for each in FULL)
