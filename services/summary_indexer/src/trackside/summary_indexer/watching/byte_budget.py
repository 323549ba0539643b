"""Bounds how many bytes of files are in memory, however many of them are read at the same time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class ByteBudget:
    """A number of bytes of which parts are taken and given back; who asks first gets its part first."""

    def __init__(self, total: int) -> None:
        self._total = self._left = total
        self._turn = asyncio.Lock()
        self._returned = asyncio.Event()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Takes that many bytes while the context lasts, all of them if there are less; waits for them."""
        size = min(size, self._total)
        async with self._turn:
            while self._left < size:
                self._returned.clear()
                await self._returned.wait()
            self._left -= size
        try:
            yield
        finally:
            self._left += size
            self._returned.set()
