"""Room on the file systems that a process writes to: when new work should wait, and what can't be written."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from trackside.contracts.envelope.memory import shown
from trackside.telemetry.disk_limits import USUAL_LIMITS, DiskLimits
from trackside.telemetry.metrics import gauge

RESUME_FACTOR = 1.1
"""How much more than the limit must be free before new work starts again, so that it doesn't flap."""
MIN_FREE_BYTES = 64 * 1024**2
"""Free bytes that a server needs to recover: Postgres writes a segment of 16 MiB, Kafka its indexes."""
MIN_FREE_INODES = 100
PROBE = b"\0" * 65_536


class DiskWatch:
    """Watches the file systems of some folders; `low` says which are low, a sentence each, by folder.

    A folder that can't be read is left out: there is nothing to be known about its file system.
    """

    def __init__(self, folders: Iterable[Path], limits: DiskLimits = USUAL_LIMITS) -> None:
        self._folders = list(folders)
        self._limits = limits
        self.low: dict[str, str] = {}

    def check(self) -> str:
        """Reads the file systems again; returns the sentences about the low ones, "" if none is."""
        before, self.low = self.low, {}
        seen: set[int] = set()
        for folder in self._folders:
            with contextlib.suppress(OSError):
                device, found = folder.stat().st_dev, os.statvfs(folder)
                _set_gauges(folder, found)
                if device not in seen and (sentence := self._low(folder, found, str(folder) in before)):
                    self.low[str(folder)] = sentence
                seen.add(device)
        return "; ".join(self.low.values())

    def _low(self, folder: Path, found: os.statvfs_result, was_low: bool) -> str:
        factor = RESUME_FACTOR if was_low else 1.0
        share = 1 - self._limits.low_percent / 100
        total = (found.f_blocks - found.f_bfree + found.f_bavail) * found.f_frsize
        free = found.f_bavail * found.f_frsize
        needed = max(self._limits.low_free_bytes, int(total * share))
        if total and free < needed * factor:
            room = f"{shown(free)} of {shown(total)} are free"
            return f"the disk of {folder} is nearly full: {room}, {shown(int(needed * RESUME_FACTOR))} needed"
        inodes, free_inodes = found.f_files - found.f_ffree + found.f_favail, found.f_favail
        if found.f_files and free_inodes < inodes * share * factor:
            more = int(inodes * share * RESUME_FACTOR)
            return f"the disk of {folder} has {free_inodes} of {inodes} inodes (files) free, {more} needed"
        return ""


def _set_gauges(folder: Path, found: os.statvfs_result) -> None:
    available = gauge("trackside.health.disk_available.bytes")
    available.labels(str(folder)).set(found.f_bavail * found.f_frsize)
    size = (found.f_blocks - found.f_bfree + found.f_bavail) * found.f_frsize
    gauge("trackside.health.disk_size.bytes").labels(str(folder)).set(size)


def write_obstacle(folder: Path) -> str:
    """Returns why a server can't work in a folder now, "" if it can: no room, no inode, or no permission.

    Writes a small file to find out, and removes it. A folder that is missing is judged by the one above it.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    probe = folder / f".probe-{os.getpid()}"
    try:
        found = os.statvfs(folder)
        try:
            probe.write_bytes(PROBE)
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        return f"{folder} can't be written: {error.strerror}"
    free = found.f_bavail * found.f_frsize
    if found.f_blocks and free < MIN_FREE_BYTES:
        return f"{folder} has no room: {shown(free)} free, {shown(MIN_FREE_BYTES)} needed"
    if found.f_files and found.f_favail < MIN_FREE_INODES:
        return f"{folder} has no room: {found.f_favail} inodes (files) free, {MIN_FREE_INODES} needed"
    return ""
