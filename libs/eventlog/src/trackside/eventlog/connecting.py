"""How a client of Kafka is started and ended, so that whoever gives up on it leaves nothing open."""

import asyncio
import traceback
from collections.abc import Collection
from typing import Any, Protocol


class Client(Protocol):
    """A producer, a consumer or an admin client of aiokafka."""

    async def start(self) -> Any:
        """Connects."""
        ...


async def connect(client: Client) -> None:
    """Starts a client; who cancels that while the broker is silent leaves no connection open.

    The client doesn't know its first connection before the broker has answered on it: only the frame that
    waits for the answer does.
    """
    try:
        await client.start()
    except asyncio.CancelledError as error:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            first = frame.f_locals.get("bootstrap_conn")
            if first is not None:
                first.close()
        raise


async def end(tasks: Collection[asyncio.Task[Any]], within_s: float) -> None:
    """Cancels tasks that are of no use any more until they are over, for three times `within_s` at most.

    More than once: a producer's sender takes the first cancellation as a word to finish what it sends, which
    may wait for metadata that nobody asks for any more. Only the next one reaches that.
    """
    left = set(tasks)
    for _ in range(3):
        _, left = await asyncio.wait(left, timeout=within_s)
        if not left:
            break
        for task in left:
            task.cancel()
    for task in tasks:
        task.cancelled() or not task.done() or task.exception()  # asked for, so that nobody complains
