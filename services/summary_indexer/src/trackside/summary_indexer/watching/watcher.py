"""Watches a directory: finds its jobs, and has each visited when one of its files changes or is due."""

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
from trackside.summary_indexer.watching.visit_queue import VisitQueue
from trackside.summary_indexer.watching.visits import JobVisitor

log = structlog.get_logger("trackside.summary_indexer")

VISITORS = 400
"""Jobs that are visited at the same time: nearly all of a visit is waiting for the log, where the records of
all of them share requests."""
FOUND_AT_ONCE = 200
"""Directories that are searched before another part of the process has its turn."""
DUE_S = 0.25
"""How often it is checked whether a visit is due."""


class DirectoryWatcher:
    """Watches one directory, on the streams of an installation."""

    def __init__(self, visitor: JobVisitor) -> None:
        self._visitor = visitor
        self._base = visitor.base
        self._queue = VisitQueue()

    def receive(self, job_id: str, event: Event) -> None:
        """Takes in an event of the log: a job with a retried file, or a restored one, is visited again."""
        if isinstance(event, SummaryFileRetried | SummaryJobRestored):
            path = self._visitor.read_again(job_id)
            if path is not None:
                self._queue.add_later(path, 0)

    async def visit_all(self) -> None:
        """Reads everything that is in the directory now, then returns."""
        async with asyncio.TaskGroup() as tasks:
            visitors = [tasks.create_task(self._visit_from_queue()) for _ in range(VISITORS)]
            await self._scan(".")
            await self._queue.until_empty()
            for visitor in visitors:
                visitor.cancel()

    async def run(self, slow_look_s: float) -> None:
        """Watches until it is cancelled; all of it is searched again every `slow_look_s` seconds."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(VISITORS):
                tasks.create_task(self._visit_from_queue())
            tasks.create_task(self._visit_due())
            while True:
                async with changes_below(self._base) as changes:
                    await self._search_and_follow(changes, slow_look_s)

    async def _search_and_follow(self, changes: ChangeQueue, slow_look_s: float) -> None:
        """Searches the directory again and again, and visits what changes meanwhile.

        Returns when the changes must be watched again: nothing reports them, or the directory is another one.
        """
        watched = _identity(self._base)
        following = asyncio.create_task(self._follow(changes))
        try:
            while True:
                await self._scan(".")
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
                        await self._scan(f"{folder}/{name}" if folder else name)

    async def _scan(self, start: str) -> None:
        """Asks for a visit of each job at and below a path that has something new, or has vanished."""
        found: set[str] = set()
        unreadable: set[str] = set()
        # Another scan may run at the same time: what it has noted since is not this one's to drop.
        report = self._visitor.report
        noted = {path for path in report.unreadable_directories() if is_below(path, {start})}
        search = find_jobs(self._base, start)
        while chunk := await asyncio.to_thread(lambda: list(islice(search, FOUND_AT_ONCE))):
            await self._visitor.compare([each for each in chunk if isinstance(each, JobDirectory)])
            for each in chunk:
                found.add(each.path)
                if isinstance(each, JobDirectory):
                    if self._visitor.needs_visit(each):
                        self._ask(each.path)
                elif each.problem != "file_vanished" or start == each.path == ".":
                    unreadable.add(each.path)
                    self._report_unreadable(each)
        for path in noted - unreadable:
            report.note(path, "", "")
        for path in self._visitor.known_paths(start):
            if path not in found and not is_below(path, unreadable):
                self._ask(path)

    def _report_unreadable(self, found: UnreadableDirectory) -> None:
        """Says of a directory that it can't be read, once while that is so."""
        report = self._visitor.report
        if report.problems.get((found.path, "")) != found.problem:
            report.note(found.path, "", found.problem)
            shown = printable_path(found.path)
            log.warning("a directory can't be read", directory=self._base, path=shown, reason=found.reason)

    def _ask(self, path: str) -> None:
        self._visitor.report.found += 1
        self._queue.add(path)

    async def _visit_from_queue(self) -> None:
        while True:
            path = await self._queue.take()
            try:
                due_ms = await self._visitor.visit(path)
            finally:
                self._visitor.report.visited += 1
                self._queue.done(path)
            if due_ms is not None:
                self._queue.add_later(path, due_ms)

    async def _visit_due(self) -> None:
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
