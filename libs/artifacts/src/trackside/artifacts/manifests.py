"""Folders as artifacts: a manifest, which is a sorted list of files and their digests, as canonical JSON.

The digest of a folder is that of its manifest. Folders without a file in them are not kept.
"""

import json
import os
import stat
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from trackside.artifacts.blobs.source_files import kind_of
from trackside.artifacts.errors import BadArtifact, PathOutsideStore
from trackside.contracts.tasks.artifacts import Sha256

MAX_FILES = 100_000
"""How many files a folder has at most."""
MAX_MANIFEST_BYTES = 64 * 2**20
"""How long a manifest is at most."""
MAX_PATH_CHARACTERS = 1_000
MAX_NAME_BYTES = 255


def check_path(path: str) -> str:
    """Returns the path of a file in a folder; ValueError unless it is relative, plain and stays within."""
    if not path or len(path) > MAX_PATH_CHARACTERS:
        raise ValueError(f"a path has 1 to {MAX_PATH_CHARACTERS} characters")
    if path.startswith("/"):
        raise ValueError(f"{path!r} is absolute: expected a path relative to the folder")
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise ValueError(f"{path!r} has the part {part!r}: expected names of files and folders only")
        if "\\" in part or not part.isprintable():
            raise ValueError(f"{path!r} has a backslash, or a character that is not printable")
        if len(part.encode()) > MAX_NAME_BYTES:
            raise ValueError(f"{path!r} has a name over {MAX_NAME_BYTES} bytes")
    return path


class ManifestFile(BaseModel):
    """A file of a folder: its path with `/`, its digest and size in bytes, whether it is executable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    path: Annotated[str, AfterValidator(check_path)]
    sha256: Sha256
    size_bytes: int = Field(ge=0, le=2**53)
    executable: bool = False


class Manifest(BaseModel):
    """The files of a folder, sorted by path."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    version: Literal[1] = 1
    files: tuple[ManifestFile, ...] = Field(max_length=MAX_FILES, strict=False)

    @model_validator(mode="after")
    def _is_sorted_and_a_tree(self) -> "Manifest":
        names = [tuple(each.path.split("/")) for each in self.files]
        for one, other in pairwise(names):
            if one >= other:
                raise ValueError(f"{'/'.join(other)!r} is repeated, or in the wrong order")
            if other[: len(one)] == one:
                raise ValueError(f"{'/'.join(one)!r} is a file and a folder")
        return self

    @property
    def size_bytes(self) -> int:
        """How many bytes its files have together."""
        return sum(each.size_bytes for each in self.files)

    def encode(self) -> bytes:
        """Returns its canonical JSON: keys in one order, no spaces, UTF-8."""
        return json.dumps(
            self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()


def make_manifest(files: list[ManifestFile]) -> Manifest:
    """Returns the manifest of these files, in any order; BadArtifact if they are no folder."""
    try:
        return Manifest(files=tuple(sorted(files, key=lambda each: each.path.split("/"))))
    except ValidationError as error:
        raise BadArtifact(f"the files make no folder: {_first(error)}") from None


def decode_manifest(content: bytes, name: str) -> Manifest:
    """Reads a manifest; BadArtifact, with the name of what was read, if it is none or not canonical."""
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError as error:
        raise BadArtifact(f"{name} is not a manifest of a folder: {_first(error)}") from None
    if manifest.encode() != content:
        raise BadArtifact(f"{name} is not a manifest of a folder: its JSON is not canonical")
    return manifest


def _first(error: ValidationError) -> str:
    detail = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in detail["loc"])
    return f"{place}: {detail['msg']}" if place else detail["msg"]


def files_below(folder: Path) -> list[Path]:
    """Returns the paths of all files in a folder and its folders, relative to it, sorted.

    PathOutsideStore for a link; BadArtifact for a device, a socket, a named pipe, a name that no manifest may
    have, or too many files. Links are not followed, also where another process changes the folder meanwhile.
    """
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise BadArtifact(f"{folder} can't be read ({error.strerror}): expected a folder") from error
    found: list[Path] = []
    for path in _walk(root, PurePosixPath(), folder):
        found.append(Path(path))
        if len(found) > MAX_FILES:
            raise BadArtifact(f"{folder} has more than {MAX_FILES:,} files: pack them into one")
    return sorted(found, key=lambda path: path.parts)


def _walk(handle: int, within: PurePosixPath, folder: Path) -> Iterator[PurePosixPath]:
    """Yields the files in an open folder, which it closes."""
    try:
        with os.scandir(handle) as entries:
            for entry in entries:
                path = within / entry.name
                _check_entry(entry, path, folder)
                if entry.is_dir(follow_symlinks=False):
                    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
                    yield from _walk(os.open(entry.name, flags, dir_fd=handle), path, folder)
                else:
                    yield path
    except OSError as error:
        raise BadArtifact(f"{folder / within} can't be read: {error.strerror}") from error
    finally:
        os.close(handle)


def _check_entry(entry: "os.DirEntry[str]", path: PurePosixPath, folder: Path) -> None:
    mode = entry.stat(follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        raise PathOutsideStore(f"{folder / path} is a link: save the file that it leads to instead")
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise BadArtifact(f"{folder / path} is {kind_of(mode)}: expected files and folders only")
    try:
        check_path(str(path))
    except ValueError as error:
        raise BadArtifact(f"{folder}: {error}") from None
