"""Polling, for conditions that can't be awaited: rows in Postgres, other processes. Tests poll only here."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def poll_until(holds: Callable[[], Awaitable[bool]], within_s: float = 120) -> None:
    """Waits until a condition holds, polling every 20 ms; TimeoutError after `within_s` seconds."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)


def poll_until_sync(holds: Callable[[], bool], within_s: float = 240) -> None:
    """Waits as `poll_until` does, but blocks the event loop."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the condition did not hold within {within_s:g} s")
        time.sleep(0.02)


async def elapse(duration_s: float) -> None:
    """Lets so much time pass: faults last for a time, tests never wait for one."""
    await asyncio.sleep(duration_s)
