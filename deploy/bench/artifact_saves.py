"""Artifacts: one file of 1 GiB and 1,000 of 4 KiB into a store that is a folder.

The reference copies the same bytes in one thread, hashes them on the way, and syncs each file: the least
that a program does which keeps files by their digests. It neither reads back nor names anything.
"""

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.measurements import Figure, Goal, Measurements, check_count
from trackside.artifacts.blobs.file_blobs import FileBlobs
from trackside.artifacts.blobs.source_files import SourceFile
from trackside.artifacts.store import Store
from trackside.eventlog.clock import monotonic_s

LARGE_BYTES = 2**30
SMALL_FILES, SMALL_BYTES = 1_000, 4_096
CHUNK_BYTES = 2**20
RUNS = 3
"""How often each is measured, in turns with its reference; the best run is the figure."""


def measure() -> Measurements:
    """Measures both, with the reference before each."""
    found = Measurements()
    with _files(1, LARGE_BYTES) as files:
        mib = LARGE_BYTES / 2**20
        bare, saved, given = (mib / seconds for seconds in _times(files))
        what = "copy + sha256 + fsync"
        goal = Goal(0.5, 0.8, ratio=True)
        found.figures += [
            Figure("A1", "an artifact of 1 GiB", saved, "MiB/s", bare, what, goal),
            Figure("A1", "the same, from the spool of a worker", given, "MiB/s", bare, what, goal),
        ]
    with _files(SMALL_FILES, SMALL_BYTES) as files:
        bare, saved, given = (SMALL_FILES / seconds for seconds in _times(files))
        found.figures += [
            Figure("A2", "artifacts of 4 KiB", saved, "/s", bare, what, goal),
            Figure("A2", "the same, from the spool of a worker", given, "/s", bare, what, goal),
        ]
        found.counted.append(check_count("artifacts of 4 KiB", len(files), SMALL_FILES))
    return found


def _times(files: Sequence[Path]) -> tuple[float, float, float]:
    """Returns the seconds of the best run: of the reference, of files that stay, and of files given away."""
    folder = files[0].parent.parent
    times = [_run(files, folder / str(run)) for run in range(RUNS)]
    return min(each[0] for each in times), min(each[1] for each in times), min(each[2] for each in times)


def _run(files: Sequence[Path], folder: Path) -> tuple[float, float, float]:
    folder.mkdir()
    bare = _timed(lambda: _copy_all(files, folder / "copies"))
    saved = _timed(lambda: _save(folder / "store", [SourceFile(path) for path in files]))
    digests = _copy_all(files, folder / "spool")
    sources = [
        SourceFile(folder / "spool" / path.name, digest=digest, give=True)
        for path, digest in zip(files, digests, strict=True)
    ]
    given = _timed(lambda: _save(folder / "given", sources))
    shutil.rmtree(folder)
    return bare, saved, given


def _timed(work: Callable[[], object]) -> float:
    os.sync()  # what was written before is not part of it
    began = monotonic_s()
    work()
    return monotonic_s() - began


def _save(root: Path, sources: Sequence[SourceFile]) -> None:
    root.mkdir()
    Store(FileBlobs(root)).put_files(sources)


def _copy_all(files: Sequence[Path], folder: Path) -> list[str]:
    folder.mkdir()
    return [_copy(path, folder / path.name) for path in files]


def _copy(source: Path, target: Path) -> str:
    digest = hashlib.sha256()
    with source.open("rb", buffering=0) as read, target.open("xb", buffering=0) as write:
        while part := read.read(CHUNK_BYTES):
            digest.update(part)
            write.write(part)
        os.fsync(write.fileno())
    return digest.hexdigest()


@contextmanager
def _files(count: int, size_bytes: int) -> Iterator[list[Path]]:
    """Makes files of random bytes, which no disk can compress, in a folder that is removed again."""
    with tempfile.TemporaryDirectory(prefix="trackside-bench-") as name:
        folder = Path(name) / "files"
        folder.mkdir()
        paths = [folder / f"{number:04}" for number in range(count)]
        for path in paths:
            with path.open("xb") as file:
                for _ in range(max(1, size_bytes // CHUNK_BYTES)):
                    file.write(secrets.token_bytes(min(size_bytes, CHUNK_BYTES)))
        yield paths
