"""The file of an exported stream with the bytes of its artifacts: a tar file.

It has `stream.jsonl`, the file of the stream; `blobs.jsonl`, a header and a line for each blob, with the same
checks; then each blob once, sorted by its digest, under the path that it has in a store.
"""

import io
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from trackside.artifacts.blobs.blobs import CHUNK_BYTES, Blob, BlobReader, blob_path, is_digest
from trackside.artifacts.blobs.reading import checked_parts
from trackside.artifacts.blobs.source_files import SourceFile
from trackside.artifacts.store import ReportBytes, Store
from trackside.contracts.tasks.artifacts import FOLDER_MEDIA_TYPE
from trackside.replay.history.errors import DamagedFileError, UnsupportedFileError
from trackside.replay.history.held_artifacts import HeldArtifact
from trackside.replay.transfer.file_format import MAX_LINE_BYTES, LineReader, LineWriter

STREAM, BLOBS = "stream.jsonl", "blobs.jsonl"
FORMAT = 1
BATCH_FILES, BATCH_BYTES = 64, 64 * 2**20
"""How much is unpacked at once to be saved: so many files or bytes, or one larger file."""
THREADS = 8
"""How many blobs are looked up at once."""
MODE = 0o444
_MAGIC, _MAGIC_AT = b"ustar", 257


def blobs_of(held: Iterable[HeldArtifact], store: Store) -> list[Blob]:
    """Returns the blobs of artifacts, each once, by digest; ArtifactMissing if one is not there."""
    sizes: dict[str, int] = {}
    for each in held:
        reference = each.reference
        if reference.media_type == FOLDER_MEDIA_TYPE:
            manifest = store.manifest(reference)
            sizes[reference.sha256] = len(manifest.encode())
            sizes |= {file.sha256: file.size_bytes for file in manifest.files}
        else:
            sizes[reference.sha256] = reference.size_bytes
    blobs = [Blob(digest, size) for digest, size in sorted(sizes.items())]
    with ThreadPoolExecutor(THREADS) as threads:
        for _ in threads.map(store.place_of, blobs):
            pass
    return blobs


def write_archive(
    out: IO[bytes], stream: IO[bytes], blobs: Sequence[Blob], store: Store, report: ReportBytes
) -> None:
    """Writes the file of a stream and its blobs, one part after another.

    The end of the file is missing if a blob turns out to be damaged: ArtifactDamaged.
    """
    done, total = 0, sum(blob.size_bytes for blob in blobs)
    with tarfile.open(fileobj=out, mode="w|") as tar:
        _add(tar, STREAM, stream.seek(0, io.SEEK_END), stream)
        index = io.BytesIO(b"".join(_index(blobs)))
        _add(tar, BLOBS, len(index.getbuffer()), index)
        for blob in blobs:
            content = io.BufferedReader(_Parts(store.place_of(blob), blob), CHUNK_BYTES)
            _add(tar, blob_path(blob.sha256), blob.size_bytes, content)
            content.read(1)  # to the end, where its digest is compared
            done += blob.size_bytes
            report(done, total)


def _add(tar: tarfile.TarFile, name: str, size: int, content: IO[bytes] | io.BufferedReader) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, MODE
    if content.seekable():
        content.seek(0)
    tar.addfile(member, content)


def _index(blobs: Sequence[Blob]) -> Iterator[bytes]:
    lines = LineWriter()
    yield lines.line({"trackside_blobs": FORMAT, "blobs": len(blobs)})
    for blob in blobs:
        yield lines.line({"sha256": blob.sha256, "size_bytes": blob.size_bytes})


class _Parts(io.RawIOBase):
    """The bytes of a blob as a file, which raises ArtifactDamaged at its end if they have another digest."""

    def __init__(self, place: BlobReader, blob: Blob) -> None:
        super().__init__()
        self._parts = checked_parts(place, blob.sha256, blob.size_bytes)
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._left:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._left = memoryview(part)
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


@dataclass(frozen=True, slots=True)
class Archive:
    """The blobs of a file that is imported, in the order of their members."""

    tar: tarfile.TarFile
    blobs: Sequence[Blob]
    members: Sequence[tarfile.TarInfo]

    def check(self, report: ReportBytes) -> None:
        """Reads all blobs; DamagedFileError for one that has another digest."""
        done, total = 0, sum(blob.size_bytes for blob in self.blobs)
        for blob, member in zip(self.blobs, self.members, strict=True):
            digest = sha256()
            for part in self._parts(member):
                digest.update(part)
            if digest.hexdigest() != blob.sha256:
                raise DamagedFileError(f"{member.name} was changed: its bytes have another digest")
            done += blob.size_bytes
            report(done, total)

    def put_into(self, store: Store, report: ReportBytes) -> None:
        """Saves all blobs in a store; those that it has are not written again."""
        done, total = 0, sum(blob.size_bytes for blob in self.blobs)
        for batch in self._batches():
            with TemporaryDirectory(prefix="trackside-import-") as folder:
                sources = [self._unpack(blob, member, Path(folder)) for blob, member in batch]
                store.put_files(sources)
            done += sum(blob.size_bytes for blob, _ in batch)
            report(done, total)

    def _batches(self) -> Iterator[list[tuple[Blob, tarfile.TarInfo]]]:
        batch: list[tuple[Blob, tarfile.TarInfo]] = []
        size = 0
        for blob, member in zip(self.blobs, self.members, strict=True):
            if batch and (len(batch) == BATCH_FILES or size + blob.size_bytes > BATCH_BYTES):
                yield batch
                batch, size = [], 0
            batch.append((blob, member))
            size += blob.size_bytes
        if batch:
            yield batch

    def _unpack(self, blob: Blob, member: tarfile.TarInfo, folder: Path) -> SourceFile:
        path = folder / blob.sha256
        with path.open("xb") as file:
            for part in self._parts(member):
                file.write(part)
        return SourceFile(path, digest=blob.sha256, give=True)

    def _parts(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        with _content(self.tar, member) as content:
            while part := content.read(CHUNK_BYTES):
                yield part


@contextmanager
def open_export(path: Path) -> Iterator[tuple[IO[bytes], Archive | None]]:
    """Opens a file that was exported, with or without artifacts; yields that of its stream, and its blobs.

    DamagedFileError if it is not one that is whole, also for what is found while it is read; OSError.
    """
    with path.open("rb") as file:
        is_tar = file.read(_MAGIC_AT + len(_MAGIC)).endswith(_MAGIC)
        file.seek(0)
        if not is_tar:
            yield file, None
            return
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                members = tar.getmembers()
                if [each.name for each in members[:2]] != [STREAM, BLOBS]:
                    raise DamagedFileError(f"the file does not begin with {STREAM} and {BLOBS}")
                blobs = _blobs_in(tar, members[1])
                _check_members(blobs, members[2:])
                with _content(tar, members[0]) as stream:
                    yield stream, Archive(tar, blobs, members[2:])
        except (tarfile.TarError, EOFError) as error:
            raise DamagedFileError(f"the file was cut off or changed: {error}") from None


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = tar.extractfile(member) if member.isreg() else None
    if content is None:
        raise DamagedFileError(f"{member.name} is not a file")
    return content


def _blobs_in(tar: tarfile.TarFile, member: tarfile.TarInfo) -> list[Blob]:
    """Reads the list of the blobs."""
    lines, blobs = LineReader(within=BLOBS), list[Blob]()
    with _content(tar, member) as content:
        header = lines.body(content.readline(MAX_LINE_BYTES))
        if header.get("trackside_blobs") != FORMAT:
            raise UnsupportedFileError(
                f"{BLOBS} has format {header.get('trackside_blobs')!r}, this release reads format {FORMAT}"
            )
        for _ in range(lines.whole_number(header, "blobs")):
            body = lines.body(content.readline(MAX_LINE_BYTES))
            if not is_digest(str(body.get("sha256"))):
                raise lines.damaged("has no digest")
            blobs.append(Blob(body["sha256"], lines.whole_number(body, "size_bytes")))
    return blobs


def _check_members(blobs: Sequence[Blob], members: Sequence[tarfile.TarInfo]) -> None:
    for blob, member in zip(blobs, members, strict=False):
        if (member.name, member.size) != (blob_path(blob.sha256), blob.size_bytes):
            raise DamagedFileError(
                f"it has {member.name} of {member.size} B, where {BLOBS} has {blob_path(blob.sha256)} of "
                f"{blob.size_bytes} B"
            )
    if len(blobs) != len(members):
        raise DamagedFileError(f"it has {len(members)} blobs, {BLOBS} has {len(blobs)}: it was cut off")
