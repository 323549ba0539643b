"""The files of a backup: one for each run, and a manifest that lists the runs that are whole.

A run's file is JSON lines, packed with gzip: a header, then for each partition a line that names it and a
line for each record, and a trailer. Each line has the check of the files of exported streams. The manifest is
replaced last, so that a run that was killed has left nothing.
"""

import gzip
import json
import os
import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from hashlib import file_digest, sha256
from io import BufferedReader
from pathlib import Path
from typing import Any

from trackside.artifacts.blobs.file_blobs import sync_folder
from trackside.eventlog.log import Entry, TopicPartition
from trackside.replay.history.errors import DamagedFileError, UnsupportedFileError
from trackside.replay.transfer.file_format import (
    MAX_LINE_BYTES,
    LineReader,
    LineWriter,
    decode_bytes,
    encode_bytes,
)

FORMAT = 1
MANIFEST, PARTIAL, LOCK = "manifest.json", "run.partial", "lock"
_RECORD = b'{"offset":'
"""How the line of a record begins."""
_PACKING = 3
"""How hard gzip tries: level 6 takes twice as long for files that are a tenth smaller."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a partition, from `begin` to before `end`."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class BackupRun:
    """A run that is whole: its file, and the log's time up to which it has records, ms since 1970."""

    file: str
    sha256: str
    size_bytes: int
    records: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """What a backup has: the log that it is of, its runs in order, and the offsets of each partition."""

    installation: str
    prefix: str
    runs: tuple[BackupRun, ...] = ()
    partitions: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    blobs: tuple[str, ...] | None = None
    """Digests of the artifacts in it, sorted; None if none were asked for."""

    def with_run(
        self, run: BackupRun | None, partitions: Mapping[TopicPartition, OffsetRange]
    ) -> "BackupManifest":
        """Returns the manifest after a run; None if there were no new records."""
        runs = self.runs if run is None else (*self.runs, run)
        return replace(self, runs=runs, partitions={**self.partitions, **partitions})

    @property
    def until_ms(self) -> int:
        """The log's time up to which the backup has records; -1 if it has none."""
        return self.runs[-1].until_ms if self.runs else -1


def read_manifest(folder: Path) -> BackupManifest | None:
    """Reads the manifest of a backup; None if there is none.

    Raises DamagedFileError, UnsupportedFileError.
    """
    try:
        text = (folder / MANIFEST).read_text("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise _changed() from None
    try:
        body = json.loads(text)
        check = body.pop("check")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise _changed() from None
    if body.get("trackside_backup") != FORMAT:
        raise UnsupportedFileError(
            f"{MANIFEST} has format {body.get('trackside_backup')!r}, this release reads format {FORMAT}"
        )
    if check != _check(body):
        raise _changed()
    return BackupManifest(
        body["installation"],
        body["prefix"],
        tuple(BackupRun(**run) for run in body["runs"]),
        {
            (topic, int(partition)): OffsetRange(*offsets)
            for topic, partitions in body["partitions"].items()
            for partition, offsets in partitions.items()
        },
        None if body["blobs"] is None else tuple(body["blobs"]),
    )


def write_manifest(folder: Path, manifest: BackupManifest) -> None:
    """Replaces the manifest, synced to the disk: this completes a run."""
    partitions: dict[str, dict[str, list[int]]] = {}
    for (topic, partition), offsets in sorted(manifest.partitions.items()):
        partitions.setdefault(topic, {})[str(partition)] = [offsets.begin, offsets.end]
    body: dict[str, Any] = {
        "trackside_backup": FORMAT,
        "installation": manifest.installation,
        "prefix": manifest.prefix,
        "runs": [asdict(run) for run in manifest.runs],
        "partitions": partitions,
        "blobs": None if manifest.blobs is None else list(manifest.blobs),
    }
    partial = folder / f"{MANIFEST}.partial"
    with partial.open("w", encoding="utf-8") as out:
        json.dump(body | {"check": _check(body)}, out)
        out.write("\n")
        out.flush()
        os.fsync(out.fileno())
    partial.replace(folder / MANIFEST)
    sync_folder(folder)


def _check(body: Mapping[str, Any]) -> str:
    return sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _changed() -> DamagedFileError:
    return DamagedFileError(f"{MANIFEST} was changed or cut off; use another copy of the backup")


@dataclass(slots=True)
class RunWriter:
    """Writes the lines of a run into a file that is open."""

    out: gzip.GzipFile
    records: int = 0
    _lines: LineWriter = field(default_factory=LineWriter)

    def header(self, manifest: BackupManifest, until_ms: int) -> None:
        """Writes the first line: which run it is, of which log, and up to when."""
        names = {"trackside_backup": FORMAT, "installation": manifest.installation, "prefix": manifest.prefix}
        self._write({**names, "run": len(manifest.runs) + 1, "until_ms": until_ms})

    def partition(self, place: TopicPartition) -> None:
        """Writes the line before the records of a partition."""
        self._write({"topic": place[0], "partition": place[1]})

    def record(self, entry: Entry) -> None:
        """Writes the line of a record."""
        self.records += 1
        self._write(
            {
                "offset": entry.offset,
                "time_ms": max(0, entry.append_time_ms),
                "key": encode_bytes(entry.key),
                "headers": [[name, encode_bytes(data)] for name, data in entry.headers],
                "value": encode_bytes(entry.value),
            }
        )

    def trailer(self) -> None:
        """Writes the last line."""
        self._write({"records": self.records})

    def _write(self, body: Mapping[str, Any]) -> None:
        self.out.write(self._lines.line(dict(body)))


@contextmanager
def partial_run(folder: Path) -> Iterator[RunWriter]:
    """Opens the file of a run that is not whole yet; it is removed if the block fails."""
    path = folder / PARTIAL
    try:
        with path.open("wb") as file:
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=_PACKING, mtime=0) as packed:
                yield RunWriter(packed)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def keep_run(folder: Path, number: int, records: int, until_ms: int) -> BackupRun | None:
    """Returns the file of a run its name, or removes it if it has no records.

    The run is a part of the backup once the manifest names it.
    """
    partial = folder / PARTIAL
    if not records:
        partial.unlink()
        return None
    with partial.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    run = BackupRun(f"{number:06}.jsonl.gz", digest, partial.stat().st_size, records, until_ms)
    partial.replace(folder / run.file)
    sync_folder(folder)
    return run


def read_run(
    folder: Path,
    run: BackupRun,
    wanted: Container[TopicPartition] | None = None,
    *,
    check_lines: bool = False,
) -> Iterator[Entry]:
    """Yields the records of a run whose file was checked, of all partitions or of those that are wanted.

    With `check_lines` the check of each line is compared: it names the line that was changed. Raises
    DamagedFileError.
    """
    lines, place, records = LineReader(within=run.file), ("", -1), 0
    body_of, skips = lines.body if check_lines else lines.unchecked_body, False
    with _packed(folder, run) as file:
        header = body_of(file.readline(MAX_LINE_BYTES))
        if header.get("trackside_backup") != FORMAT:
            raise lines.damaged("is not the header of a run of a backup")
        while data := file.readline(MAX_LINE_BYTES):
            if skips and data.startswith(_RECORD):
                lines.number, records = lines.number + 1, records + 1
                continue
            body = body_of(data)
            if "offset" in body:
                records += 1
                yield _entry(lines, place, body)
            elif "topic" in body:
                place = (str(body["topic"]), lines.whole_number(body, "partition"))
                skips = wanted is not None and place not in wanted
            elif body.get("records") == records == run.records:
                return
            else:
                raise lines.damaged("is not the trailer of the lines before it")
    raise DamagedFileError(f"{run.file} ends at line {lines.number}, without its trailer: it was cut off")


@contextmanager
def _packed(folder: Path, run: BackupRun) -> Iterator[gzip.GzipFile]:
    try:
        with _open(folder, run) as packed, gzip.GzipFile(fileobj=packed, mode="rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DamagedFileError(f"{run.file} was cut off or changed: {error}") from None


def _entry(lines: LineReader, place: TopicPartition, body: Mapping[str, Any]) -> Entry:
    try:
        # Most are text: a call for each header would take a third of the time of a restore's reading.
        headers = [
            (str(name), data.encode() if type(data) is str else decode_bytes(data))
            for name, data in body["headers"]
        ]
        key, value = decode_bytes(body["key"]), decode_bytes(body["value"])
    except (KeyError, TypeError, ValueError):
        raise lines.damaged("is not the line of a record") from None
    offset, time_ms = lines.whole_number(dict(body), "offset"), lines.whole_number(dict(body), "time_ms")
    return Entry(*place, offset, time_ms, key, value, headers)


def check_runs(folder: Path, manifest: BackupManifest, report: Callable[[int, int], None]) -> None:
    """Compares the files of all runs with their digests; raises DamagedFileError for one that differs.

    Only the lines of a file that differs are read, for the first one that was changed.
    """
    done, total = 0, sum(run.records for run in manifest.runs)
    for run in manifest.runs:
        if _digest(folder, run) != run.sha256:
            for _ in read_run(folder, run, check_lines=True):
                pass
            raise DamagedFileError(f"{run.file} was changed: {MANIFEST} has another digest of it")
        done += run.records
        report(done, total)


def _digest(folder: Path, run: BackupRun) -> str:
    with _open(folder, run) as file:
        return file_digest(file, "sha256").hexdigest()


def _open(folder: Path, run: BackupRun) -> BufferedReader:
    try:
        return (folder / run.file).open("rb")
    except FileNotFoundError:
        raise DamagedFileError(f"{run.file} is missing; use another copy of the backup") from None
