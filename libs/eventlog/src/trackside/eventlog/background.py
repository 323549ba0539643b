"""Work beside the loop of a service: kept until it ends, and never failing unseen."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class CancelledByNobodyError(Exception):
    """Work ended as if it had been cancelled, but nobody did: a library has let a cancellation out."""


class Background:
    """The tasks of one service; the first error of any of them is kept in `failure` and rings `alarm`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.failure: BaseException | None = None
        self.alarm: Callable[[], None] | None = None
        self._closing = False

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Starts work; it goes on until it ends or the service does."""
        task = asyncio.create_task(work, name=getattr(work, "__qualname__", None))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Cancels what is still going on and waits for it."""
        self._closing = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = self._error_of(task)
        if error is None:
            return
        self.failure = self.failure or error
        if self.alarm is not None:
            self.alarm()

    def _error_of(self, task: asyncio.Task[Any]) -> BaseException | None:
        if not task.cancelled():
            return task.exception()
        return None if self._closing else CancelledByNobodyError(task.get_name())
