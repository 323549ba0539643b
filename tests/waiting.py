"""For what rings no bell: rows in Postgres, processes of others. The only place where tests look again."""

import asyncio
from collections.abc import Awaitable, Callable


async def until(holds: Callable[[], Awaitable[bool]], within_s: float = 120) -> None:
    """Waits until something holds, looking again every 20 ms; TimeoutError after `within_s`."""
    async with asyncio.timeout(within_s):
        while not await holds():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.02)
