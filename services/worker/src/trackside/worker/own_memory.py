"""The own memory of a process: what it could not do without, and what it doesn't share with other tasks.

That is memory without a file behind it (anonymous and shared memory), since the kernel takes back pages of
files when memory is short. What several processes share counts for each by its share (PSS). Pages that a
process still shares with the forkserver, such as those of preloaded modules, are there whether it runs or
not: they are not its own. Sources: proc(5), the kernel's Documentation/filesystems/proc.rst.
"""

import re
from pathlib import Path
from typing import NamedTuple

KIB = 1_024
_NUMBER = re.compile(rb"^([\w()]+):?[ \t]+(\d+)(?=\s)", re.MULTILINE)
LARGE_BYTES = 16 * 2**30
"""A larger process counts with all its memory without files: to find what is shared takes 5 ms per GiB."""


class OwnMemory(NamedTuple):
    """The own memory of a process now, and at its peak since that was last reset, in bytes."""

    now_bytes: int
    peak_bytes: int


def own_memory(process: Path, inherited_bytes: int) -> OwnMemory | None:
    """Returns the own memory of a process by its folder in /proc; None if it has ended.

    `inherited_bytes` is its share of the pages that it has from the forkserver. The kernel keeps the peak of
    all resident pages: those that aren't own now were not own then, as far as is known.
    """
    status = numbers(process / "status", KIB)
    if "VmRSS" not in status:
        return None
    now_bytes = without_files(status)
    if now_bytes < LARGE_BYTES:
        shared = numbers(process / "smaps_rollup", KIB)
        now_bytes = shared.get("Pss_Anon", shared.get("Pss", now_bytes)) + shared.get("Pss_Shmem", 0)
    now_bytes = max(0, now_bytes - inherited_bytes)
    return OwnMemory(now_bytes, now_bytes + max(0, status.get("VmHWM", 0) - status["VmRSS"]))


def shares_of_others(process: Path) -> int:
    """Returns how many bytes of a process's anonymous memory count for others that share it."""
    shared = numbers(process / "smaps_rollup", KIB)
    return max(0, shared.get("Anonymous", 0) - shared.get("Pss_Anon", 0)) if "Pss_Anon" in shared else 0


def without_files(status: dict[str, int]) -> int:
    """Returns the resident bytes without those of files, from the numbers of /proc/PID/status."""
    return status.get("RssAnon", status.get("VmRSS", 0)) + status.get("RssShmem", 0)


def numbers(path: Path, scale: int = 1) -> dict[str, int]:
    """Returns the numbers of a file with lines `name: 123 kB` or `name 123`; empty if it can't be read."""
    try:
        octets = path.read_bytes()
    except OSError:  # the process has ended, or the host has no such file
        return {}
    return {name.decode(): int(number) * scale for name, number in _NUMBER.findall(octets)}
