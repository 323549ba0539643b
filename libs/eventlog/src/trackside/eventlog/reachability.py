"""Says soon which server does not answer, whoever waits for it: clients retry in silence, and for long."""

import asyncio
import struct
from collections.abc import Awaitable, Callable

WITHIN_S = 1.0
"""How long a server may take to answer, s, before that is said; with what comes before, it is below 2 s."""
AGAIN_S = 30.0
_CORRELATION_ID = 1
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, _CORRELATION_ID, -1)
"""The request that every broker answers to everyone: which requests it knows."""


async def say_until_it_answers(
    server: str, ask: Callable[[], Awaitable[None]], say: Callable[[str], None], within_s: float = WITHIN_S
) -> None:
    """Says that a server, named with its address, does not answer, and why; every 30 s until it does."""
    while True:
        try:
            async with asyncio.timeout(within_s):
                await ask()
            return
        except (OSError, EOFError, ValueError) as error:
            reason = "no answer" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
            say(f"no {server}: {reason}; still trying")
        await asyncio.sleep(AGAIN_S)


async def ask_kafka(bootstrap: str) -> None:
    """Asks one broker after the other until one answers; raises what the last one gave."""
    *others, last = bootstrap.split(",")
    for address in others:
        try:
            async with asyncio.timeout(WITHIN_S / (len(others) + 1)):
                await _ask_broker(address)
            return
        except (OSError, EOFError, ValueError):
            continue
    await _ask_broker(last)


async def _ask_broker(address: str) -> None:
    host, _, port = address.strip().rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{address!r} is not a host:port")
    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    try:
        writer.write(_API_VERSIONS)
        _size, answered = struct.unpack(">ii", await reader.readexactly(8))
        if answered != _CORRELATION_ID:
            raise ValueError("what answers there is not Kafka")
    finally:
        writer.transport.abort()
