"""The spool of a placement: copies of what its task saves, until the store has them and the log says so.

An artifact is a file or a folder, and a record that names it, which is written last: what has no record was
not handed over. Both outlive the task's process and the worker. Nothing is synced here: after a power cut the
process is gone too, and a file that is not what its record says is refused by the store.
"""

import errno
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from trackside.artifacts.blobs.source_files import OpenFile, SourceFile, open_source
from trackside.artifacts.errors import ArtifactError
from trackside.artifacts.formats import check_model
from trackside.artifacts.manifests import ManifestFile, files_below, make_manifest
from trackside.artifacts.store import media_type_of
from trackside.contracts.envelope.memory import shown
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import CHECKPOINT, FOLDER_MEDIA_TYPE, MAX_ARTIFACTS, MODEL
from trackside.sdk.in_task.saving import FILE, SaveError, check_artifact
from trackside.worker.child.process.masking import masked
from trackside.worker.durable_files import write_atomically
from trackside.worker.messages.assignment import Assignment
from trackside.worker.messages.process_messages import encode
from trackside.worker.messages.report_messages import ArtifactReady, StepReport

_FULL = (errno.ENOSPC, errno.EDQUOT)


def record_file(folder: Path, number: int) -> Path:
    """Returns the file with the record of an artifact in its spool."""
    return folder / f"{number:06d}.json"


def content_path(folder: Path, number: int) -> Path:
    """Returns the file or folder with what is saved."""
    return folder / f"{number:06d}.content"


@dataclass(frozen=True, slots=True)
class Labels:
    """What is known of an artifact beside its content; without a media type its name gives that."""

    kind: str
    metadata: Json
    step: int | None
    requests: int
    media_type: str = ""
    interrupts: int = 0
    reports: Sequence[StepReport] = ()
    resumed: Json | None = None


class Spool:
    """Takes what a task saves, numbered from 1; `versions` are the newest of earlier placements by name."""

    def __init__(self, folder: Path, max_bytes: int, versions: Mapping[str, int]) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._versions = dict(versions)
        self._number = 0
        self._adding = Lock()

    def add(self, name: str, source: Path | bytes, labels: Labels) -> ArtifactReady:
        """Copies a file, a folder or bytes, and records it.

        Raises SaveError: the source is no file or folder, or changes meanwhile; the task has saved too much;
        the spool or its disk is full.
        """
        with self._adding:
            self._check_count(name, labels.kind)
            number = self._number + 1
            content = content_path(self.folder, number)
            try:
                sha256, size_bytes, media_type = self._copy(name, source, content)
                if labels.kind == MODEL:
                    check_model(content, (source if isinstance(source, Path) else Path(name)).suffix[1:])
                ready = ArtifactReady(
                    number=number,
                    name=name,
                    version=self._versions.get(name, 0) + 1,
                    kind=labels.kind,
                    sha256=sha256,
                    size_bytes=size_bytes,
                    media_type=labels.media_type or media_type,
                    step=labels.step,
                    metadata=labels.metadata,
                    requests=labels.requests,
                    interrupts=labels.interrupts,
                    reports=list(labels.reports),
                    resumed=labels.resumed,
                )
                ready = masked(ready)
                write_atomically(record_file(self.folder, number), encode(ready))
            except ArtifactError as error:
                _remove(content)
                raise SaveError(error.code, str(error)) from error
            except OSError as error:
                _remove(content)
                if error.errno not in _FULL:
                    raise
                where = f"the disk of the spool {self.folder.parent} is full"
                raise SaveError("spool_full", f"{name} can't be saved: {where}") from error
            self._number, self._versions[name] = number, ready.version
            return ready

    def add_outputs(self, folder: Path, requests: int) -> Iterator[ArtifactReady]:
        """Adds each file and folder in a folder by its name, but not those that begin with a dot."""
        if folder.is_symlink():
            raise SaveError("path_outside_store", f"{folder} was replaced by a link")
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            if not path.name.startswith("."):
                check_artifact(path.name, FILE, None)
                yield self.add(path.name, path, Labels(FILE, {}, None, requests))

    def _check_count(self, name: str, kind: str) -> None:
        saved = sum(version for each, version in self._versions.items() if each != CHECKPOINT)
        if kind != CHECKPOINT and saved >= MAX_ARTIFACTS:
            raise SaveError(
                "too_many_artifacts",
                f"{name} can't be saved: the task has saved {MAX_ARTIFACTS:,} artifacts, which is the limit; "
                "save a folder instead of many files",
            )

    def _copy(self, name: str, source: Path | bytes, content: Path) -> tuple[str, int, str]:
        """Copies to the spool; returns digest, size in bytes, and media type."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _remove(content)  # of a copy that failed
        if isinstance(source, Path) and stat.S_ISDIR(source.lstat().st_mode if source.exists() else 0):
            return (*self._copy_folder(name, source, content), FOLDER_MEDIA_TYPE)
        if isinstance(source, bytes):
            self._check_room(name, len(source))
            content.write_bytes(source)
            return hashlib.sha256(source).hexdigest(), len(source), media_type_of(name)
        with open_source(SourceFile(source)) as opened:
            self._check_room(name, opened.size_bytes)
            return _copied(opened, content), opened.size_bytes, media_type_of(source.name)

    def _copy_folder(self, name: str, source: Path, content: Path) -> tuple[str, int]:
        files = []
        for path in files_below(source):
            target = content / path
            with open_source(SourceFile(path, below=source)) as opened:
                self._check_room(name, opened.size_bytes)
                target.parent.mkdir(parents=True, exist_ok=True)
                sha256 = _copied(opened, target)
                if opened.is_executable:
                    target.chmod(0o700)
                files.append(
                    ManifestFile(
                        path=path.as_posix(),
                        sha256=sha256,
                        size_bytes=opened.size_bytes,
                        executable=opened.is_executable,
                    )
                )
        manifest = make_manifest(files)
        return hashlib.sha256(manifest.encode()).hexdigest(), manifest.size_bytes

    def _check_room(self, name: str, size_bytes: int) -> None:
        """Raises SaveError if the spools of this worker have no room for so many bytes more."""
        used_bytes = bytes_below(self.folder.parent)
        if used_bytes + size_bytes > self._max_bytes:
            raise SaveError(
                "spool_full",
                f"{name} can't be saved: it has {shown(size_bytes)}, and {shown(used_bytes)} of the "
                f"{shown(self._max_bytes)} of the spool wait for the store; see "
                "TRACKSIDE_WORKER_SPOOL_BYTES, and whether the store answers",
            )


def spool_of(assignment: Assignment) -> Spool | None:
    """Returns the spool of an assignment; None if there is no store."""
    if not assignment.spool:
        return None
    return Spool(Path(assignment.spool), assignment.spool_bytes, assignment.saved)


def bytes_below(folder: Path) -> int:
    """Returns how many bytes the files below a folder have."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:  # it has just been removed
                continue
    return total


def _copied(opened: OpenFile, target: Path) -> str:
    with target.open("xb", buffering=0) as out:
        return opened.copy_to(out)


def _remove(content: Path) -> None:
    if content.is_dir():
        shutil.rmtree(content, ignore_errors=True)
    else:
        content.unlink(missing_ok=True)
