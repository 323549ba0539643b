"""The store of an installation: saves files and folders by their digests, and reads them back, checked."""

import io
import mimetypes
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Literal

from trackside.artifacts.blobs.blobs import Blob, BlobReader, BlobStore, Unfinished, Written
from trackside.artifacts.blobs.reading import read_blob
from trackside.artifacts.blobs.source_files import SourceFile
from trackside.artifacts.errors import ArtifactDamaged, ArtifactMissing, BadArtifact, StoreUnreachable
from trackside.artifacts.manifests import (
    MAX_MANIFEST_BYTES,
    Manifest,
    ManifestFile,
    decode_manifest,
    files_below,
    make_manifest,
)
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE, STORED, ArtifactReference

MEDIA_TYPE = "application/octet-stream"
MAX_READERS = 8
"""How many files of a folder are read at once."""
READ_ONLY, READ_AND_EXECUTE = 0o444, 0o555

Condition = Literal["ok", "missing", "damaged"]
ReportBytes = Callable[[int, int], None]
"""Receives how many bytes are done, and how many there are."""
OpenOutside = Callable[[str, str | None], BlobReader]
_TYPES = mimetypes.MimeTypes(())


def ignore_bytes(done: int, total: int) -> None:
    """Reports no progress."""


def no_outside(url: str, credential: str | None) -> BlobReader:
    """Opens nothing outside the store; BadArtifact."""
    raise BadArtifact(f"{url} is outside the store, where nothing is read here")


@dataclass(frozen=True)
class Store:
    """Files and folders by their digests in one place; reading tries `copies` of it too, in their order.

    An artifact whose URI is outside is read from there unless the store has it: bytes with the same digest
    are the same.
    """

    blobs: BlobStore
    copies: Sequence[BlobReader] = ()
    open_outside: OpenOutside = no_outside
    """Opens the blob that a URL names, or the store that it is in, with the credential of a name."""

    def put(
        self,
        source: Path | bytes,
        *,
        digest: str | None = None,
        give: bool = False,
        media_type: str | None = None,
    ) -> ArtifactReference:
        """Saves a file, a folder or bytes, and returns its reference once it was read back.

        `digest` is what the caller knows of a file. With `give` the files will only be removed, by the
        caller, and not changed: the store may share their bytes and make them read-only.
        """
        if isinstance(source, bytes):
            return self.put_files([SourceFile(Path("bytes"), content=source, digest=digest)], media_type)[0]
        if source.is_dir() and not source.is_symlink():
            return self.put_folder(source, give=give)
        return self.put_files([SourceFile(source, digest=digest, give=give)], media_type)[0]

    def put_files(
        self, sources: Sequence[SourceFile], media_type: str | None = None
    ) -> list[ArtifactReference]:
        """Saves files together, which is much faster than one by one; their names give their media types."""
        written = self.blobs.put(sources)
        return [
            _reference(each.sha256, each.size_bytes, media_type or media_type_of(source.path.name))
            for source, each in zip(sources, written, strict=True)
        ]

    def put_folder(self, folder: Path, *, give: bool = False) -> ArtifactReference:
        """Saves the files of a folder and its manifest; the reference has the size of all files together."""
        paths = files_below(folder)
        written = self.blobs.put([SourceFile(path, below=folder, give=give) for path in paths])
        manifest = make_manifest([_entry(path, each) for path, each in zip(paths, written, strict=True)])
        content = manifest.encode()
        if len(content) > MAX_MANIFEST_BYTES:
            raise BadArtifact(f"{folder} has too many files: pack them into one")
        saved = self.blobs.put([SourceFile(folder, content=content)])[0]
        return _reference(saved.sha256, manifest.size_bytes, FOLDER_MEDIA_TYPE)

    def get(self, reference: ArtifactReference, target: Path, report: ReportBytes = ignore_bytes) -> None:
        """Writes a file or a folder, read-only, to a path where nothing is; it is there once it is whole.

        ArtifactMissing, ArtifactDamaged or StoreUnreachable if no copy has it; BadArtifact if something is at
        the target; an OSError if the target can't be written.
        """
        if target.exists() or target.is_symlink():
            raise BadArtifact(f"{target} exists already: name a path where nothing is")
        part = target.with_name(f".{secrets.token_hex(8)}.part")
        reading = _Reading(self._places(reference), reference.size_bytes, report)
        try:
            if reference.media_type == FOLDER_MEDIA_TYPE:
                self._get_folder(reference, part, reading)
            else:
                reading.get_file(reference.sha256, reference.size_bytes, part)
            part.rename(target)
        finally:
            _remove(part)

    def place_of(self, blob: Blob) -> BlobReader:
        """Returns the first place that has a blob with its size, the store or a copy; ArtifactMissing."""
        for place in (self.blobs, *self.copies):
            found = place.find(blob.sha256)
            if found is not None and found.size_bytes == blob.size_bytes:
                return place
        raise ArtifactMissing(
            f"{self.blobs.url} has no blob sha256/{blob.sha256} of {blob.size_bytes} bytes; "
            "`trackside verify-log --store` lists all artifacts that it lacks"
        )

    def manifest(self, reference: ArtifactReference) -> Manifest:
        """Reads the manifest of a folder; errors as those of get."""
        return self._manifest(reference, self._places(reference))

    def _manifest(self, reference: ArtifactReference, places: Sequence[BlobReader]) -> Manifest:
        content = io.BytesIO()
        read_blob(places, reference.sha256, None, content)
        found = decode_manifest(content.getvalue(), reference.uri)
        if found.size_bytes != reference.size_bytes:
            raise ArtifactDamaged(
                f"the files of {reference.uri} have {found.size_bytes} bytes, expected {reference.size_bytes}"
            )
        return found

    def verify(self, reference: ArtifactReference, *, digests: bool = True) -> Condition:
        """Reads all of an artifact back, copies aside; returns whether it is there and has its digest.

        Without `digests` only the sizes are compared, and nothing but the manifest of a folder is read.
        """
        check = self._verify_blob if digests else self._verify_size
        try:
            if reference.media_type != FOLDER_MEDIA_TYPE:
                return check(reference.sha256, reference.size_bytes)
            files = self._manifest(reference, [self.blobs]).files
        except ArtifactMissing:
            return "missing"
        except (ArtifactDamaged, BadArtifact):
            return "damaged"
        with ThreadPoolExecutor(MAX_READERS) as threads:
            found = set(threads.map(lambda each: check(each.sha256, each.size_bytes), files))
        return "damaged" if "damaged" in found else "missing" if "missing" in found else "ok"

    def exists(self, reference: ArtifactReference) -> bool:
        """Returns whether the store, or a copy, has the blob of an artifact; nothing is read.

        StoreUnreachable if one didn't answer and no other has it.
        """
        failure: StoreUnreachable | None = None
        for place in self._places(reference):
            try:
                if place.find(reference.sha256) is not None:
                    return True
            except StoreUnreachable as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return False

    def check_reachable(self) -> None:
        """Raises StoreUnreachable if the store does not answer, or is not there: it would lack everything."""
        next(self.blobs.list_blobs(), None)

    def list_blobs(self) -> Iterator[Blob]:
        """Yields all blobs of the store, those of copies not."""
        return self.blobs.list_blobs()

    def delete(self, sha256: str, saved_before_ms: int) -> bool:
        """Deletes a blob unless it was saved again since, by ms since 1970; returns whether it did."""
        return self.blobs.delete(sha256, saved_before_ms)

    def list_unfinished(self) -> Iterator[Unfinished]:
        """Yields what killed writers left, and what is being written."""
        return self.blobs.list_unfinished()

    def delete_unfinished(self, name: str) -> None:
        """Deletes one of them."""
        self.blobs.delete_unfinished(name)

    def _places(self, reference: ArtifactReference) -> list[BlobReader]:
        """Returns where an artifact may be, in the order in which it is tried."""
        own: list[BlobReader] = [self.blobs, *self.copies]
        if reference.uri.startswith(STORED):
            return own
        return [*own, self.open_outside(reference.uri, reference.credential)]

    def _verify_blob(self, sha256: str, size_bytes: int) -> Condition:
        try:
            read_blob([self.blobs], sha256, size_bytes, _Nowhere())
        except ArtifactMissing:
            return "missing"
        except ArtifactDamaged:
            return "damaged"
        return "ok"

    def _verify_size(self, sha256: str, size_bytes: int) -> Condition:
        found = self.blobs.find(sha256)
        if found is None:
            return "missing"
        return "ok" if found.size_bytes == size_bytes else "damaged"

    def _get_folder(self, reference: ArtifactReference, part: Path, reading: "_Reading") -> None:
        files = self._manifest(reference, reading.places).files
        part.mkdir()
        for folder in sorted({part / each.path for each in files}, key=lambda path: path.parts):
            folder.parent.mkdir(parents=True, exist_ok=True)

        def get(each: ManifestFile) -> None:
            path = part / each.path
            reading.get_file(each.sha256, each.size_bytes, path)
            if each.executable:
                path.chmod(READ_AND_EXECUTE)

        with ThreadPoolExecutor(MAX_READERS) as threads:
            for waiting in [threads.submit(get, each) for each in files]:
                waiting.result()


@dataclass
class _Reading:
    """The reading of an artifact: where it may be, and how many bytes all threads have read."""

    places: Sequence[BlobReader]
    total: int
    report: ReportBytes
    done: int = 0
    lock: Lock = field(default_factory=Lock)

    def get_file(self, sha256: str, size_bytes: int, path: Path) -> None:
        """Writes a blob to a new file, read-only."""
        with path.open("xb") as out:
            read_blob(self.places, sha256, size_bytes, out, self._counter())
        path.chmod(READ_ONLY)

    def _counter(self) -> Callable[[int], None]:
        """Returns what receives the bytes of one file; another copy that is read begins with fewer again."""
        before = 0

        def receive(done: int) -> None:
            nonlocal before
            with self.lock:
                self.done += done - before
                before = done
                self.report(self.done, self.total)

        return receive


class _Nowhere:
    """An output that keeps nothing."""

    def seek(self, offset: int, /) -> int:
        return offset

    def truncate(self) -> int:
        return 0

    def write(self, content: bytes, /) -> int:
        return len(content)


def stored_uri(sha256: str) -> str:
    """Returns the URI of a blob in the store of the installation, wherever that is."""
    return STORED + sha256


def media_type_of(name: str) -> str:
    """Returns the media type that a file's name stands for; the same on every host."""
    return _TYPES.guess_type(name)[0] or MEDIA_TYPE


def _reference(sha256: str, size_bytes: int, media_type: str) -> ArtifactReference:
    return ArtifactReference(
        uri=stored_uri(sha256), sha256=sha256, size_bytes=size_bytes, media_type=media_type
    )


def _entry(path: Path, written: Written) -> ManifestFile:
    return ManifestFile(
        path=path.as_posix(),
        sha256=written.sha256,
        size_bytes=written.size_bytes,
        executable=written.executable,
    )


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        with suppress(OSError):
            part.unlink(missing_ok=True)
