"""For what rings no bell: rows in Postgres, processes of others. The only place where tests look again."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def until(holds: Callable[[], Awaitable[bool]], within_s: float = 120) -> None:
    """Waits until something holds, looking again every 20 ms; TimeoutError after `within_s`."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


def look_until(holds: Callable[[], bool], within_s: float = 240) -> None:
    """Waits as `until` does, where nothing else is to run meanwhile."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it did not come to hold within {within_s:g} s")
        time.sleep(0.02)
