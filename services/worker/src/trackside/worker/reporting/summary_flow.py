"""What one placement has on its way to the log: bounded, so that a task that floods waits, and no other."""

import asyncio
import contextlib
from collections.abc import Callable

from trackside.eventlog.log import Appended

MAX_UNAPPENDED_BATCHES = 128
"""Batches of one placement that may wait for the log; then no more is read from its task."""
LOOK_S = 0.5
"""How often a placement that waits looks whether the log still answers, in seconds."""


class SummaryFlow:
    """Counts the batches of one placement that are not in the log yet, and what was left out.

    While the log does not answer, nothing waits: the training continues, and the oldest batches are dropped.
    """

    def __init__(self, is_stalled: Callable[[], bool]) -> None:
        self.left_out = 0
        self._is_stalled = is_stalled
        self._unappended = 0
        self._has_room = asyncio.Event()
        self._released = False

    @property
    def is_full(self) -> bool:
        """Whether the placement has to wait until the log has taken what it has reported."""
        return self._unappended >= MAX_UNAPPENDED_BATCHES and not self._released and not self._is_stalled()

    def sent(self) -> Callable[[Appended], None]:
        """Counts a batch; returns what to call once it is in the log."""
        self._unappended += 1
        return self._on_appended

    def dropped(self, values: int) -> None:
        """Counts a batch that was left out, of so many values."""
        self.left_out += values
        self._leave()

    async def room(self) -> None:
        """Waits until there is room."""
        while self.is_full:
            self._has_room.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._has_room.wait()

    def release(self) -> None:
        """Lets everything pass: the process is gone, and what it left is bounded by its channel."""
        self._released = True
        self._has_room.set()

    def _on_appended(self, _: Appended) -> None:
        self._leave()

    def _leave(self) -> None:
        self._unappended -= 1
        if self._unappended < MAX_UNAPPENDED_BATCHES:
            self._has_room.set()
