"""The jobs that are to be visited: now, or at a time."""

import asyncio
import heapq
from collections import deque

from trackside.eventlog.clock import now_ms


class VisitQueue:
    """Jobs to visit, each once however often it is asked for, and never twice at the same time."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._asked: set[str] = set()
        self._running: set[str] = set()
        self._dues: list[tuple[int, str]] = []
        self._due_of: dict[str, int] = {}
        self._changed = asyncio.Condition()

    async def add(self, path: str) -> None:
        """Asks for a visit; one that runs is repeated when it has ended."""
        async with self._changed:
            if path not in self._asked:
                self._asked.add(path)
                self._waiting.append(path)
                self._changed.notify_all()

    def add_later(self, path: str, due_ms: int) -> None:
        """Asks for a visit at a time, in milliseconds since 1970."""
        if self._due_of.get(path, due_ms + 1) > due_ms:  # what is due earlier finds out what is due later
            self._due_of[path] = due_ms
            heapq.heappush(self._dues, (due_ms, path))

    async def add_due(self, most_s: float) -> float:
        """Asks for the visits that are due; returns the seconds until the next one, at most so many."""
        while self._dues and self._dues[0][0] <= now_ms():
            due_ms, path = heapq.heappop(self._dues)
            if self._due_of.get(path) == due_ms:
                del self._due_of[path]
                await self.add(path)
        return min(most_s, max(0.001, (self._dues[0][0] - now_ms()) / 1000)) if self._dues else most_s

    async def take(self) -> str:
        """Waits for a job that is to be visited and is not; `done` ends the visit."""
        async with self._changed:
            while True:
                for _ in range(len(self._waiting)):
                    path = self._waiting.popleft()
                    if path not in self._running:
                        self._asked.discard(path)
                        self._running.add(path)
                        return path
                    self._waiting.append(path)
                await self._changed.wait()

    async def done(self, path: str) -> None:
        """Ends a visit."""
        async with self._changed:
            self._running.discard(path)
            self._changed.notify_all()

    async def until_empty(self) -> None:
        """Waits until nothing is asked for and no visit runs; visits that are due later don't count."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._asked and not self._running)
