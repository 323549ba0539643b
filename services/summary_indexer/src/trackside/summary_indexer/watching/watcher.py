"""Watches a directory: finds its jobs, and has each scanned when one of its files changes or is due."""

import asyncio
import stat
from collections.abc import Set
from itertools import islice
from pathlib import Path

import structlog

from trackside.aggregates.summary.messages import SummaryFileRetried, SummaryJobRestored
from trackside.contracts.envelope.message import Event
from trackside.summaries.directories import (
    JobDirectory,
    UnreadableDirectory,
    find_jobs,
    format_of,
    printable_path,
)
from trackside.summary_indexer.watching.changes import ChangeQueue, changes_below
from trackside.summary_indexer.watching.directory_scans import DirectoryScanner
from trackside.summary_indexer.watching.scan_queue import ScanQueue

log = structlog.get_logger("trackside.summary_indexer")

SCANNERS = 400
"""Jobs that are scanned at the same time: nearly all of a scan is waiting for the log, where the records of
all of them share requests."""
FOUND_AT_ONCE = 200
"""Directories that are searched before another part of the process has its turn."""
DUE_S = 0.25
"""How often it is checked whether a scan is due."""


class DirectoryWatcher:
    """Watches one directory, on the streams of an installation."""

    def __init__(self, scanner: DirectoryScanner) -> None:
        self._scanner = scanner
        self._base = scanner.base
        self._queue = ScanQueue()

    def receive(self, job_id: str, event: Event) -> None:
        """Takes in an event of the log: a job with a retried file, or a restored one, is scanned again."""
        if isinstance(event, SummaryFileRetried | SummaryJobRestored):
            path = self._scanner.read_again(job_id)
            if path is not None:
                self._queue.add_later(path, 0)

    async def scan_all(self) -> None:
        """Reads everything that is in the directory now, then returns."""
        async with asyncio.TaskGroup() as tasks:
            scanners = [tasks.create_task(self._scan_from_queue()) for _ in range(SCANNERS)]
            await self._search(".")
            await self._queue.until_empty()
            for scanner in scanners:
                scanner.cancel()

    async def run(self, slow_look_s: float) -> None:
        """Watches until it is cancelled; all of it is searched again every `slow_look_s` seconds."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(SCANNERS):
                tasks.create_task(self._scan_from_queue())
            tasks.create_task(self._scan_due())
            while True:
                async with changes_below(self._base) as changes:
                    await self._search_and_follow(changes, slow_look_s)

    async def _search_and_follow(self, changes: ChangeQueue, slow_look_s: float) -> None:
        """Searches the directory again and again, and scans what changes meanwhile.

        Returns when the changes must be watched again: nothing reports them, or the directory is another one.
        """
        watched = _identity(self._base)
        following = asyncio.create_task(self._follow(changes))
        try:
            while True:
                await self._search(".")
                await asyncio.sleep(slow_look_s)
                if following.done():
                    following.result()  # raises what it failed with
                if changes.failed.is_set() or _identity(self._base) != watched:
                    return
        finally:
            following.cancel()

    async def _follow(self, changes: ChangeQueue) -> None:
        while True:
            for path in await changes.take():
                if path.startswith(f"{self._base}/"):
                    folder, _, name = path[len(self._base) + 1 :].rpartition("/")
                    if format_of(name) is not None:
                        self._queue.add(folder or ".")
                    elif not is_other_file(path):
                        await self._search(f"{folder}/{name}" if folder else name)

    async def _search(self, start: str) -> None:
        """Asks for a scan of each job at and below a path that has something new, or has vanished."""
        found: set[str] = set()
        unreadable: set[str] = set()
        # Another scan may run at the same time: what it has noted since is not this one's to drop.
        report = self._scanner.report
        noted = {path for path in report.unreadable_directories() if is_below(path, {start})}
        search = find_jobs(self._base, start)
        while chunk := await asyncio.to_thread(lambda: list(islice(search, FOUND_AT_ONCE))):
            await self._scanner.compare([each for each in chunk if isinstance(each, JobDirectory)])
            for each in chunk:
                found.add(each.path)
                if isinstance(each, JobDirectory):
                    if self._scanner.needs_scan(each):
                        self._ask(each.path)
                elif each.problem != "file_vanished" or start == each.path == ".":
                    unreadable.add(each.path)
                    self._report_unreadable(each)
        for path in noted - unreadable:
            report.note(path, "", "")
        for path in self._scanner.known_paths(start):
            if path not in found and not is_below(path, unreadable):
                self._ask(path)

    def _report_unreadable(self, found: UnreadableDirectory) -> None:
        """Reports that a directory can't be read, once while that is so."""
        report = self._scanner.report
        if report.problems.get((found.path, "")) != found.problem:
            report.note(found.path, "", found.problem)
            shown = printable_path(found.path)
            log.warning("a directory can't be read", directory=self._base, path=shown, reason=found.reason)

    def _ask(self, path: str) -> None:
        self._scanner.report.found += 1
        self._queue.add(path)

    async def _scan_from_queue(self) -> None:
        while True:
            path = await self._queue.take()
            try:
                due_ms = await self._scanner.scan(path)
            finally:
                self._scanner.report.scanned += 1
                self._queue.done(path)
            if due_ms is not None:
                self._queue.add_later(path, due_ms)

    async def _scan_due(self) -> None:
        while True:  # noqa: ASYNC110 - it waits for a time
            await asyncio.sleep(self._queue.add_due(DUE_S))


def is_below(path: str, directories: Set[str]) -> bool:
    """Returns whether a path is that of one of these directories, or of one below it.

    Of what is below a directory that can't be read, as when a disk is not mounted, nothing is known.
    """
    return (
        "." in directories
        or path in directories
        or any(path[:at] in directories for at, char in enumerate(path) if char == "/")
    )


def is_other_file(path: str) -> bool:
    """Returns whether a path leads to a regular file, or to one that can't be reached."""
    try:
        return stat.S_ISREG(Path(path).lstat().st_mode)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _identity(base: str) -> tuple[int, int] | None:
    try:
        found = Path(base).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
