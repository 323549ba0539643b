"""Decides when a file of a job is read, and what is said of one that can't be read on. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

from trackside.summaries.directories import FoundFile

UNFINISHED_MS = 600_000
"""A record that is not whole, or a file that is empty, is marked once the file has not changed that long."""
FIRST_PAUSE_MS = 1_000
LONGEST_PAUSE_MS = 3_600_000
"""The pauses after which a file that can't be read is read again: the first, doubled up to the longest."""
HEALED_BY_CHANGE = frozenset(
    {"record_unfinished", "file_empty", "file_vanished", "file_shrunk", "file_replaced", "no_rights"}
)
"""Problems that may be over as soon as a file changes; with others, the bytes behind make no difference."""


class LogPosition(NamedTuple):
    """What the log has of a file: the end of what was read, and its number in the job, 0 if it has none.

    If it is quarantined, `code` says why, and `again_at_ms` until when. `fingerprint` tells another file from
    it, as far as it was read.
    """

    to: int
    code: str = ""
    again_at_ms: int = 0
    number: int = 0
    fingerprint: str = ""


class FileVersion(NamedTuple):
    """What a look at a file finds without reading it: whether this differs says whether it changed."""

    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    device: int


def version_of(file: FoundFile) -> FileVersion:
    """Returns what is compared of two looks at a file."""
    return FileVersion(file.size, file.modified_ns, file.changed_ns, file.inode, file.device)


ANOTHER_VERSION = FileVersion(-1, 0, 0, 0, 0)
"""The version of no file: what is found differs from it."""


@dataclass(slots=True)
class ScanHistory:
    """What is remembered of the looks at a file.

    How it was at the last one, how many failed in a row, and when the next one is due after that.
    """

    version: FileVersion | None = None
    failures: int = 0
    again_at_ms: int = 0


def should_read(position: LogPosition, history: ScanHistory, found: FoundFile, now_ms: int) -> bool:
    """Returns whether a file is to be read now."""
    unchanged = history.version == version_of(found)
    if not position.code:
        if history.version is None:  # the first look since the start
            return found.size != position.to or not found.size
        return not unchanged
    if now_ms >= max(position.again_at_ms, history.again_at_ms):
        return True
    return not unchanged and position.code in HEALED_BY_CHANGE


def should_compare(position: LogPosition, history: ScanHistory, found: FoundFile) -> bool:
    """Returns whether it takes a look into a file to know whether it is still the one that was read."""
    first_look = history.version is None and not position.code
    return first_look and found.size == position.to and bool(position.fingerprint)


def tail_problem(found: FoundFile, end: int, now_ms: int) -> str:
    """Returns how a file is marked that was read to `end` without a problem, empty while it may grow."""
    if end >= found.size > 0 or now_ms < tail_due_ms(found):
        return ""
    return "record_unfinished" if found.size else "file_empty"


def tail_due_ms(found: FoundFile) -> int:
    """Returns when a file that is not whole is marked unless it changes."""
    return found.modified_ns // 1_000_000 + UNFINISHED_MS


def pause_ms(failures: int) -> int:
    """Returns how long to wait after so many failures in a row."""
    return int(min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** min(failures - 1, 20)))
