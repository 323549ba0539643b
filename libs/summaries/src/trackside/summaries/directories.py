"""Finds the jobs below a directory: the directories, at any depth, that hold event files themselves.

Links are not followed, neither to files nor to directories, so nothing out of the directory is read. A name
that is not UTF-8 is a name as any other; `printable_path` is how it is shown and recorded.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

FileFormat = Literal["tensorboard", "mindspore", "mindspore_graph", "mindspore_lineage", "mindspore_explain"]
"""What a file holds by its name. Only the first two make a directory a job; the last one is not read."""

AccessProblem = Literal["no_rights", "file_vanished", "file_unreadable"]

_MINDSPORE = re.compile(r"\.summary\.\d+\.")
_STAMP = re.compile(r"(?:tfevents|summary)\.(\d{1,18})")
_OF_A_JOB = frozenset({"tensorboard", "mindspore"})


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file of a job: its name as the file system has it, its size in bytes, when it was written.

    `inode` and `device` say together whether a file of this name is still the same file. `changed_ns` is when
    its content, its name or its rights changed.
    """

    name: str
    format: FileFormat
    inode: int
    device: int
    size: int
    modified_ns: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class JobDirectory:
    """A directory with event files; `path` is relative, "." for the directory that was searched."""

    path: str
    files: list[FoundFile]


@dataclass(frozen=True, slots=True)
class UnreadableDirectory:
    """A directory that is skipped, and why."""

    path: str
    problem: AccessProblem
    reason: str


def find_jobs(base: str, start: str = ".") -> Iterator[JobDirectory | UnreadableDirectory]:
    """Yields the jobs below a directory and what can't be read, in the order of their paths.

    `start` is the path below `base` where the search begins. Of each directory only the names are kept while
    those below it are searched.
    """
    pending = [start]
    while pending:
        path = pending.pop()
        try:
            files, below = _list_directory(base, path)
        except OSError as error:
            yield UnreadableDirectory(path, problem_of(error), error.strerror or str(error))
            continue
        if any(file.format in _OF_A_JOB for file in files):
            yield JobDirectory(path, files)
        pending += (name if path == "." else f"{path}/{name}" for name in sorted(below, reverse=True))


def list_job(base: str, path: str) -> JobDirectory:
    """Returns the event files that a directory holds now, maybe none. Raises OSError."""
    return JobDirectory(path, _list_directory(base, path)[0])


def _list_directory(base: str, path: str) -> tuple[list[FoundFile], list[str]]:
    """Returns the event files of a directory and the names of the directories in it."""
    files, below = [], []
    descriptor = open_below(base, path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                elif (held := format_of(entry.name)) and entry.is_file(follow_symlinks=False):
                    try:
                        found = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # it went while the directory was read
                    files.append(_file(entry.name, held, found))
    finally:
        os.close(descriptor)
    if not any(file.format == "mindspore" for file in files):
        files = [file for file in files if file.format != "mindspore_graph"]
    return sorted(files, key=order_of), below


def _file(name: str, held: FileFormat, found: os.stat_result) -> FoundFile:
    times = found.st_mtime_ns, found.st_ctime_ns
    return FoundFile(name, held, found.st_ino, found.st_dev, found.st_size, *times)


def stat_file(base: str, path: str, name: str) -> FoundFile:
    """Returns how an event file stands now. Raises OSError, also where it is no regular file any more."""
    descriptor = open_below(base, path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    finally:
        os.close(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise FileNotFoundError(errno.ENOENT, "not a regular file any more", name)
    return _file(name, format_of(name) or "tensorboard", found)


def open_below(base: str, path: str, flags: int = os.O_RDONLY) -> int:
    """Opens a file or directory below a directory and returns its descriptor.

    No part of the path may be a link or "..", even if it becomes one meanwhile. Raises OSError.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in path:
        raise PermissionError(errno.EACCES, "a path with .. or NUL is not opened", path)
    strict = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(base, (os.O_RDONLY | os.O_DIRECTORY if parts else flags) | os.O_CLOEXEC)
    for at, part in enumerate(parts, 1):
        try:
            wanted = flags if at == len(parts) else os.O_RDONLY | os.O_DIRECTORY
            below = os.open(part, wanted | strict, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def format_of(name: str) -> FileFormat | None:
    """Returns what a file holds by its name, None where it is no event file."""
    if "tfevents" in name:
        return "tensorboard"
    if _MINDSPORE.search(name):
        if name.endswith("_lineage"):
            return "mindspore_lineage"
        return "mindspore_explain" if name.endswith("_explain") else "mindspore"
    return "mindspore_graph" if name.endswith(".pb") else None


def order_of(file: FoundFile) -> tuple[int, str]:
    """Returns what the files of a job are sorted by: the time in the name, then the name."""
    stamp = _STAMP.search(file.name)
    return (int(stamp[1]) if stamp else 0, file.name)


def problem_of(error: OSError) -> AccessProblem:
    """Returns why something can't be read."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return "no_rights"
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE):
        return "file_vanished"
    return "file_unreadable"


def printable_path(path: str) -> str:
    """Returns a path as text that every encoding of Unicode can hold; no two paths have the same.

    Bytes that are no UTF-8, and control characters, become "\\xff", and a backslash "\\\\".
    """
    return "".join(map(_printable, path))


def path_of(printable: str) -> str:
    """Returns the path that `printable_path` shows as this text."""
    return os.fsdecode(_ESCAPED.sub(_escaped_byte, printable.encode()))


_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|\\)")


def _escaped_byte(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)]) if found[1] else b"\\"


def _printable(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if char < " " or "\x7f" <= char < "\xa0" or "\ud800" <= char <= "\udfff":
        return "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
    return char
