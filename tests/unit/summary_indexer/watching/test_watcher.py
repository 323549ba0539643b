"""What a watcher says of directories that it can't read."""

from collections.abc import Iterator, Sequence

import pytest
import structlog

from trackside.summaries.directories import JobDirectory, UnreadableDirectory
from trackside.summary_indexer.watching import watcher
from trackside.summary_indexer.watching.report import WatchReport


class Scanner:
    """Knows no jobs; the first scan that compares what it has found waits there for another one."""

    base = "/runs"

    def __init__(self) -> None:
        self.report = WatchReport()
        self.watcher = watcher.DirectoryWatcher(self)  # type: ignore[arg-type]

    async def compare(self, found: Sequence[JobDirectory]) -> None:
        if found:
            await self.watcher._search("closed")

    def needs_scan(self, _: JobDirectory) -> bool:
        return False

    def known_paths(self, _: str) -> list[str]:
        return []


async def test_a_scan_keeps_what_another_one_has_noted_since_and_nothing_is_said_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One scan reads the directory, its rights go, a second one says so, and only then the first ends."""
    closed = UnreadableDirectory("closed", "no_rights", "Permission denied")
    scans: list[list[JobDirectory | UnreadableDirectory]]
    scans = [[JobDirectory("closed", [])], [closed], [closed], []]

    def find_jobs(_: str, __: str) -> Iterator[JobDirectory | UnreadableDirectory]:
        return iter(scans.pop(0))

    monkeypatch.setattr(watcher, "find_jobs", find_jobs)
    scanner = Scanner()
    with structlog.testing.capture_logs() as lines:
        await scanner.watcher._search(".")
        await scanner.watcher._search(".")
    assert [(line["path"], line["reason"]) for line in lines] == [("closed", "Permission denied")]
    await scanner.watcher._search(".")
    assert scanner.report.problems == {}
