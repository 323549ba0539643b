"""Connections to Postgres that are given up before they are there."""

import asyncio
import gc
from typing import Any

from trackside.projections.database.postgres import connect


async def iterations(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_connection_given_up_at_any_moment_leaves_no_error_behind() -> None:
    """asyncio printed "Future exception was never retrieved" at the end of a command."""
    said: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: said.append(context))
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        for moment in range(12):  # the question is sent in the sixth iteration of the event loop
            opening = asyncio.create_task(connect(f"postgresql://u:p@127.0.0.1:{port}/d", "s"))
            await iterations(moment)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await iterations(5)
    del opening
    gc.collect()
    assert not said
