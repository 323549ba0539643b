"""Background tasks of a service: an error of any of them ends the service."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from trackside.eventlog.kafka.client_lifecycle import cancel_tasks

CANCEL_AGAIN_S = 5.0
"""A task that still runs so long after it was cancelled is cancelled again: a library has lost the first.

asyncio.wait_for of Python 3.11 loses one that arrives together with the result, for example.
"""


class UnexpectedCancellationError(Exception):
    """A task was cancelled, but not by this process: a library let one of its own cancellations escape."""


async def cancel_and_wait(*tasks: asyncio.Task[Any]) -> None:
    """Cancels tasks and waits until they have ended, for three times `CANCEL_AGAIN_S` at most."""
    for task in tasks:
        task.cancel()
    if tasks:
        await cancel_tasks(tasks, CANCEL_AGAIN_S)


class Background:
    """The tasks of one service; the first error is kept in `failure`, and each error calls `alarm`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.failure: BaseException | None = None
        self.alarm: Callable[[], None] | None = None
        self._closing = False

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Starts a task; it runs until it ends or the service does."""
        task = asyncio.create_task(work, name=getattr(work, "__qualname__", None))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Cancels the tasks that still run and waits for them."""
        self._closing = True
        await cancel_and_wait(*self._tasks)

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
        return None if self._closing else UnexpectedCancellationError(task.get_name())
