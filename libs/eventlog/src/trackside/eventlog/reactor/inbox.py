"""A queue with many producers and one consumer, which takes all items at once."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Inbox(Generic[Item]):
    """Items in order; a producer waits while there are `size` items.

    An asyncio.Queue below an asyncio.timeout does the same, at three times the processor time per turn.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: deque[Item] = deque()
        self._taker: asyncio.Future[None] | None = None
        self._putters: deque[asyncio.Future[None]] = deque()

    def __bool__(self) -> bool:
        return bool(self._items)

    async def put(self, item: Item) -> None:
        """Adds an item once there is space."""
        while len(self._items) >= self._size:
            space = asyncio.get_running_loop().create_future()
            self._putters.append(space)
            await space
        self.add(item)

    def add(self, item: Item) -> None:
        """Adds an item regardless of `size`."""
        self._items.append(item)
        if self._taker is not None:
            _wake(self._taker)

    async def take(self, max_wait_s: float) -> deque[Item]:
        """Returns all items as soon as there is one; none after `max_wait_s` seconds."""
        if not self._items:
            loop = asyncio.get_running_loop()
            self._taker = loop.create_future()
            timer = loop.call_later(max_wait_s, _wake, self._taker)
            try:
                await self._taker
            finally:
                timer.cancel()
                self._taker = None
        items, self._items = self._items, deque()
        while self._putters:
            _wake(self._putters.popleft())
        return items


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
