"""The task that writes a deployed model where it is read: over the one in use, or with a config file."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trackside.artifacts.blobs.credentials import Credential
from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.tasks.artifacts import Sha256, Url
from trackside.incremental import model_config
from trackside.incremental.config_folders import folder_of, remove_published
from trackside.incremental.outputs import (
    CHUNK_BYTES,
    OutputError,
    WrittenFile,
    named_credential,
    open_output_store,
    order_of,
    output_errors,
    output_path,
    write_file,
    write_object,
)
from trackside.sdk import Task, trial

CONFIG_MODE = 0o644
"""Others than the user of the worker read it."""


class CopiedModel(BaseModel):
    """The version of a model that is copied."""

    model_config = ConfigDict(frozen=True, strict=True)
    model: Identifier
    version: int = Field(ge=1)
    sha256: Sha256
    format: str = "file"


class FolderRemoval(BaseModel):
    """The folder `url`/`job` that is removed with its models, as the job was deleted at `time_ms`."""

    model_config = ConfigDict(frozen=True, strict=True)
    target: Literal["removal"]
    url: Url
    credential: Identifier | None = None
    job: Identifier
    time_ms: int = Field(ge=0)


class ModelCopy(BaseModel):
    """Where a model goes: over the file `url`, or into the folder `url`/`job` with a `model_config.json`.

    `update` is the number of the deployment, `time_ms` when it was published, in ms since 1970.
    """

    model_config = ConfigDict(frozen=True, strict=True)
    target: Literal["copy", "config"]
    url: Url
    credential: Identifier | None = None
    job: Identifier
    update: int
    model: CopiedModel
    time_ms: int = Field(ge=0)


class CopyModel(Task):
    """Copies its input `model`; a reader never sees a part of one, nor a path without a file.

    Or it removes what such copies have left, after the job was deleted.
    """

    def load(self) -> None:
        """Reads the parameters; OutputError for those that name no place."""
        given = trial.parameters()
        wanted = FolderRemoval if given.get("target") == "removal" else ModelCopy
        try:
            self.asked: FolderRemoval | ModelCopy = wanted.model_validate(given)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            path = ".".join(str(each) for each in problem["loc"])
            raise OutputError("bad_parameters", f"{path}: {problem['msg']}") from None

    def train(self, device: str) -> dict[str, Any]:
        """Returns the URL of the copy, and digest and size in bytes as they were read back.

        Of a removal: the URL of the folder, how many files were removed, and whether others are left in it.
        """
        if isinstance(self.asked, FolderRemoval):
            folder = folder_of(self.asked.url, self.asked.job)
            removed = remove_published(folder, named_credential(self.asked.credential), self.asked.time_ms)
            return {"url": folder, "files": removed.files, "others": removed.others}
        source = trial.input("model")
        check_source(source, self.asked.model.sha256)
        copied = (copy_over if self.asked.target == "copy" else publish)(self.asked, source)
        return {"url": copied.url, "sha256": copied.sha256, "size_bytes": copied.size_bytes}


def check_source(source: Path, sha256: str) -> None:
    """Raises OutputError unless the model is a file with this digest."""
    if source.is_dir():
        raise OutputError(
            "not_a_file",
            "the model is a folder, and is to be copied to where one file is read: save it as one file, or "
            "let services of Trackside load it",
        )
    with source.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise OutputError("damaged", f"the model to copy has the SHA-256 {found}, expected {sha256}")


def copy_over(asked: ModelCopy, source: Path) -> WrittenFile:
    """Writes a model over the file that a URL names, unless a later update was written there."""
    return _write(asked.url, named_credential(asked.credential), source, asked.time_ms)


def publish(asked: ModelCopy, source: Path) -> WrittenFile:
    """Writes a model under a name of its version, then the `model_config.json` that names it."""
    credential = named_credential(asked.credential)
    folder = folder_of(asked.url, asked.job)
    model, config = asked.model, f"{folder}/{model_config.CONFIG_FILE}"
    name = model_config.model_file_name(model.model, model.version, model.sha256, model.format)
    written = _write(f"{folder}/{name}", credential, source)
    path = output_path(written.url)
    content = model_config.config_text(str(path or written.url), asked.time_ms)
    before = _read(config, credential)
    config_path = output_path(config)
    if config_path is None:
        write_object(config, open_output_store(config, credential), [content], asked.time_ms)
    else:
        assert path is not None
        _write_config(config_path, config, content, asked.time_ms, path)
    in_use = {name, file_name_of(model_config.named_model(before))}
    try:
        _remove_old(folder, credential, in_use)
    except OutputError as error:
        sys.stderr.write(f"trackside: older models stay in {folder}: {error}\n")
    return written


def _write_config(path: Path, url: str, content: bytes, time_ms: int, model: Path) -> None:
    """Writes `model_config.json`, unless a later update was written, or the folder was removed meanwhile."""
    try:
        write_file(path, url, [content], CONFIG_MODE, time_ms, order_of(path.parent))
    except OutputError as error:
        if error.code == "superseded" and not path.exists():
            with suppress(OSError):
                model.unlink()
                path.parent.rmdir()
        raise


def _write(url: str, credential: Credential | None, source: Path, time_ms: int | None = None) -> WrittenFile:
    path = output_path(url)
    if path is not None:
        return write_file(path, url, _Chunks(source), time_ms=time_ms)
    return write_object(url, open_output_store(url, credential), _Chunks(source), time_ms)


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The bytes of a file, which may be read more than once."""

    source: Path

    def __iter__(self) -> Iterator[bytes]:
        with self.source.open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk


def _read(url: str, credential: Credential | None) -> bytes:
    """Returns the bytes of a small file; none if it isn't there."""
    path = output_path(url)
    try:
        with output_errors(url):
            if path is not None:
                return path.read_bytes()
            store = open_output_store(url, credential)
            return b"".join(store.read_path(store.root))
    except OutputError:
        return b""


def _remove_old(folder: str, credential: Credential | None, in_use: set[str]) -> None:
    path = output_path(folder)
    with output_errors(folder):
        if path is not None:
            times = {each.name: each.stat().st_mtime for each in path.iterdir() if each.is_file()}
            for name in model_config.models_to_remove(times, in_use):
                with suppress(FileNotFoundError):
                    (path / name).unlink()
            return
        store = open_output_store(folder, credential)
        with store.errors():
            files = store.files.ls(store.root, detail=True)
            times = {file_name_of(each["name"]): each["LastModified"].timestamp() for each in files}
            for name in model_config.models_to_remove(times, in_use):
                store.files.rm_file(f"{store.root}/{name}")


def file_name_of(path: str) -> str:
    """Returns the last part of a path or URL."""
    return path.rpartition("/")[2]
