"""A server that is as slow as a test wants: what passes through it is held back until it may flow."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

CHUNK_BYTES = 65_536


@dataclass
class SlowServer:
    """Its port, whether bytes `flow` through it, and whether any `came`."""

    port: int
    flow: asyncio.Event = field(default_factory=asyncio.Event)
    came: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def slow_server(upstream: int) -> AsyncIterator[SlowServer]:
    """Passes bytes to a port of loopback, and its answers back; holds them back at first."""

    async def serve(client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", upstream)
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(client, to_server))
            group.create_task(pump(server, to_client))

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while octets := await reader.read(CHUNK_BYTES):
                slow.came.set()
                await slow.flow.wait()
                writer.write(octets)
                await writer.drain()
        except ConnectionError:
            pass  # the other side has ended it
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    slow = SlowServer(listening.sockets[0].getsockname()[1])
    try:
        yield slow
    finally:
        slow.flow.set()
        listening.close()
        await listening.wait_closed()
