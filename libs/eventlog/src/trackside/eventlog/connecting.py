"""How a client of Kafka is started, so that whoever gives up on it leaves nothing open."""

import asyncio
import traceback
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
