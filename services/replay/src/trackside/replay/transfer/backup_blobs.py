"""Copies blobs between the store of an installation and the folder of a backup: only those that it lacks."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

from trackside.artifacts.blobs.blobs import Blob, BlobReader, BlobStore, blob_path
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.blobs.reading import checked_parts
from trackside.artifacts.blobs.source_files import SourceFile
from trackside.artifacts.errors import ArtifactDamaged, ArtifactMissing
from trackside.replay.history.errors import DamagedFileError

BATCH_FILES, BATCH_BYTES = 64, 64 * 2**20
"""How much is copied at once: so many files or bytes, or one larger file."""
THREADS = 8
_UNPACKED = ".unpacked-"
CopyProgress = Callable[[int, int], None]


def copy_to_backup(store: BlobReader, blobs: Sequence[Blob], folder: Path, report: CopyProgress) -> int:
    """Copies blobs of a store into a backup that this process has locked; returns how many it lacked.

    What a run that was killed has left is deleted. Raises ArtifactError, OSError.
    """
    backup = FileBlobs(folder)
    for left in folder.glob(f"{_UNPACKED}*"):
        rmtree(left)
    for unfinished in backup.list_unfinished():
        backup.delete_unfinished(unfinished.name)
    copied = 0
    for batch in _lacking(blobs, backup, report):
        with TemporaryDirectory(prefix=_UNPACKED, dir=folder) as unpacked:
            sources = [found for blob in batch if (found := _unpack(store, blob, Path(unpacked)))]
            if sources:
                backup.put(sources)
            copied += len(sources)
    return copied


def copy_to_store(folder: Path, digests: Sequence[str], store: BlobStore, report: CopyProgress) -> int:
    """Copies the blobs of a backup into a store; returns how many it lacked.

    What a copy that failed or was killed has saved stays, and is not copied again. Raises DamagedFileError,
    ArtifactError.
    """
    copied = 0
    for batch in _lacking(_found(FileBlobs(folder), digests), store, report):
        store.put([SourceFile(folder / blob_path(blob.sha256), digest=blob.sha256) for blob in batch])
        copied += len(batch)
    return copied


def check_blobs(folder: Path, digests: Sequence[str], report: CopyProgress) -> None:
    """Reads the blobs of a backup; raises DamagedFileError if one is missing or has other bytes."""
    backup = FileBlobs(folder)

    def read(blob: Blob) -> None:
        for _ in checked_parts(backup, blob.sha256, None):
            pass

    blobs = _found(backup, digests)
    with ThreadPoolExecutor(THREADS) as threads:
        try:
            for done, _ in enumerate(threads.map(read, blobs), 1):
                report(done, len(blobs))
        except ArtifactDamaged as error:
            raise DamagedFileError(f"{error}; use another copy of the backup") from None


def _found(backup: FileBlobs, digests: Sequence[str]) -> list[Blob]:
    found = []
    for digest in digests:
        blob = backup.find(digest)
        if blob is None:
            raise DamagedFileError(f"the blob sha256/{digest} is missing; use another copy of the backup")
        found.append(blob)
    return found


def _lacking(blobs: Sequence[Blob], target: BlobStore, report: CopyProgress) -> Iterator[list[Blob]]:
    """Yields the blobs that a store lacks, in batches that are copied before the next one is asked for."""
    with ThreadPoolExecutor(THREADS) as threads:
        known = list(threads.map(lambda blob: target.find(blob.sha256), blobs))
    lacking = [blob for blob, found in zip(blobs, known, strict=True) if found is None]
    done, total = 0, sum(blob.size_bytes for blob in lacking)
    for batch in _batches(lacking):
        yield batch
        done += sum(blob.size_bytes for blob in batch)
        report(done, total)


def _unpack(source: BlobReader, blob: Blob, folder: Path) -> SourceFile | None:
    """Writes a blob to a file; None if it was deleted since the store was listed: no record needs it."""
    path = folder / blob.sha256
    try:
        with path.open("xb") as out:
            for part in checked_parts(source, blob.sha256, blob.size_bytes):
                out.write(part)
    except (FileNotFoundError, ArtifactMissing):
        return None
    except OSError as error:  # the error of a write has no name of a file
        raise OSError(error.errno, error.strerror, str(path)) from error
    return SourceFile(path, digest=blob.sha256, give=True)


def _batches(blobs: Sequence[Blob]) -> Iterator[list[Blob]]:
    batch: list[Blob] = []
    size = 0
    for blob in blobs:
        if batch and (len(batch) == BATCH_FILES or size + blob.size_bytes > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(blob)
        size += blob.size_bytes
    if batch:
        yield batch
