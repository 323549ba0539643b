"""Reports soon which server does not answer, whoever waits for it: clients retry in silence, and for long."""

import asyncio
from collections.abc import Awaitable, Callable

WITHIN_S = 1.0
"""How long a server may take to answer, s, before that is said; with what comes before, it is below 2 s."""
AGAIN_S = 30.0


async def report_until_reachable(
    server: str, ask: Callable[[], Awaitable[None]], say: Callable[[str], None], within_s: float = WITHIN_S
) -> None:
    """Reports that a server, named with its address, does not answer, and why; every 30 s until it does."""
    while True:
        try:
            async with asyncio.timeout(within_s):
                await ask()
            return
        except (OSError, EOFError, ValueError) as error:
            reason = "no answer" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            say(f"no {server}: {reason}; still trying")
        await asyncio.sleep(AGAIN_S)
