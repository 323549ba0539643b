"""Reads the catalogue again when its file has changed, or when the worker gets SIGHUP.

The file is looked at twice a second: that also works on network file systems, which report no changes.
"""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

import structlog

from trackside.worker.catalogue.task_catalogue import CatalogueError, TaskCatalogue, read_catalogue

log = structlog.get_logger("trackside.worker")

LOOK_EVERY_S = 0.5
Stamp = tuple[int, int, int] | None
"""What changes with a file: its inode, size and time in ns; None for a file that can't be found."""


class KnownTypes(TypedDict):
    """What the fleet knows of a catalogue: fields of WorkerJoined and CatalogueChanged."""

    task_types: list[str]
    max_memory_bytes: dict[str, int]
    max_cuda_memory_bytes: dict[str, int]
    services: list[str]
    digests: dict[str, str]


@dataclass(frozen=True, slots=True)
class CatalogueChange:
    """A catalogue that was read again, and the task types that are new, gone, or defined otherwise."""

    catalogue: TaskCatalogue
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


def difference(before: TaskCatalogue, after: TaskCatalogue) -> CatalogueChange:
    """Returns what differs between two catalogues."""
    old, new = before.tasks, after.tasks
    return CatalogueChange(
        after,
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        changed=tuple(sorted(name for name in old.keys() & new.keys() if old[name] != new[name])),
    )


class CatalogueWatch:
    """The catalogue of a worker as its file was when it was valid last."""

    def __init__(self, path: Path, catalogue: TaskCatalogue) -> None:
        self.current = catalogue
        self._path = path
        self._read = self._seen = stamp_of(path)
        self._requested = asyncio.Event()

    async def run(self, use: Callable[[CatalogueChange], None]) -> None:
        """Calls `use` with each change until it is cancelled; SIGHUP reads the file at once."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._requested.set)
        try:
            while True:
                change = self.look()
                if change is not None:
                    use(change)
                try:
                    await asyncio.wait_for(self._requested.wait(), LOOK_EVERY_S)
                except TimeoutError:
                    continue
                self._requested.clear()
                self._read = None
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    def look(self) -> CatalogueChange | None:
        """Reads the file if it has changed and has stayed the same since the last look; returns what differs.

        An invalid file is reported once, and the catalogue stays as it was.
        """
        stamp, before = stamp_of(self._path), self._seen
        self._seen = stamp
        if stamp in (None, self._read) or stamp != before:  # an editor may be writing it
            return None
        self._read = stamp
        try:
            catalogue = read_catalogue(self._path)
        except CatalogueError as error:
            log.error("the changed catalogue is invalid: the one before it stays in use", reason=str(error))
            return None
        change = difference(self.current, catalogue)
        if catalogue.preload != self.current.preload:
            log.warning(
                "`preload` of the catalogue has changed: it takes effect when the worker starts again"
            )
        self.current = catalogue
        if not (change.added or change.removed or change.changed):
            return None
        log.info(
            "read the catalogue again",
            added=list(change.added),
            removed=list(change.removed),
            changed=list(change.changed),
        )
        return change


def known_types(catalogue: TaskCatalogue) -> KnownTypes:
    """Returns what the fleet knows of a catalogue."""
    return KnownTypes(
        task_types=sorted(catalogue.tasks),
        max_memory_bytes=catalogue.max_memory_bytes,
        max_cuda_memory_bytes=catalogue.max_cuda_memory_bytes,
        services=sorted(catalogue.services),
        digests=catalogue.digests,
    )


def stamp_of(path: Path) -> Stamp:
    """Returns the stamp of a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
