"""Starts and ends clients of Kafka so that a cancelled start or stop leaves no connection open."""

import asyncio
import traceback
from collections.abc import Collection
from typing import Any, Protocol


class KafkaClient(Protocol):
    """A producer, a consumer or an admin client of aiokafka."""

    async def start(self) -> Any:
        """Connects."""
        ...


async def start_client(client: KafkaClient) -> None:
    """Starts a client; cancelled while the broker doesn't respond, it closes the connection.

    The client doesn't know its first connection before the broker has responded on it: only the frame that
    waits for the response does.
    """
    try:
        await client.start()
    except asyncio.CancelledError as error:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            connection = frame.f_locals.get("bootstrap_conn")
            if connection is not None:
                connection.close()
        raise


async def cancel_tasks(tasks: Collection[asyncio.Task[Any]], within_s: float) -> None:
    """Cancels tasks until they have ended, for three times `within_s` seconds at most.

    More than once: a producer's sender takes the first cancellation as a request to finish sending, which may
    wait for metadata. Only the next cancellation ends that wait.
    """
    left = set(tasks)
    for _ in range(3):
        _, left = await asyncio.wait(left, timeout=within_s)
        if not left:
            break
        for task in left:
            task.cancel()
    for task in tasks:
        task.cancelled() or not task.done() or task.exception()  # retrieved, so that asyncio logs no warning
