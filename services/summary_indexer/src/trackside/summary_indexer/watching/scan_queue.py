"""The jobs that are to be scanned: now, or at a time."""

import asyncio
import heapq

from trackside.eventlog.clock import now_ms


class ScanQueue:
    """Jobs to scan, each once however often it is asked for, and never twice at the same time."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._asked: set[str] = set()
        self._running: set[str] = set()
        self._dues: list[tuple[int, str]] = []
        self._due_of: dict[str, int] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def add(self, path: str) -> None:
        """Asks for a scan; one that runs is repeated when it has ended."""
        if path not in self._asked:
            self._asked.add(path)
            self._empty.clear()
            if path not in self._running:
                self._waiting.put_nowait(path)

    def add_later(self, path: str, due_ms: int) -> None:
        """Asks for a scan at a time, in milliseconds since 1970."""
        if self._due_of.get(path, due_ms + 1) > due_ms:  # what is due earlier finds out what is due later
            self._due_of[path] = due_ms
            heapq.heappush(self._dues, (due_ms, path))

    def add_due(self, most_s: float) -> float:
        """Asks for the scans that are due; returns the seconds until the next one, at most so many."""
        while self._dues and self._dues[0][0] <= now_ms():
            due_ms, path = heapq.heappop(self._dues)
            if self._due_of.get(path) == due_ms:
                del self._due_of[path]
                self.add(path)
        return min(most_s, max(0.001, (self._dues[0][0] - now_ms()) / 1000)) if self._dues else most_s

    async def take(self) -> str:
        """Waits for a job that is to be scanned and is not; `done` ends the scan."""
        path = await self._waiting.get()
        self._asked.discard(path)
        self._running.add(path)
        return path

    def done(self, path: str) -> None:
        """Ends a scan."""
        self._running.discard(path)
        if path in self._asked:
            self._waiting.put_nowait(path)
        if not self._asked and not self._running:
            self._empty.set()

    async def until_empty(self) -> None:
        """Waits until nothing is asked for and no scan runs; scans that are due later don't count."""
        await self._empty.wait()
