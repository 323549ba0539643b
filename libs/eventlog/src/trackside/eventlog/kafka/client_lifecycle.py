"""Starts and ends clients of Kafka so that a cancelled start or stop leaves no connection open."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Protocol

import structlog
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

log = structlog.get_logger("trackside.eventlog")

STOP_S = 1.0
"""How long a client may take to stop, in s, before it is dropped."""


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


async def start_within(
    client: AIOKafkaProducer | AIOKafkaConsumer,
    within_s: float,
    check: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Starts a client, and checks it; if that fails or takes over `within_s` s, closes its connections."""
    try:
        async with asyncio.timeout(within_s):
            await start_client(client)
            if check is not None:
                await check()
    except BaseException:
        await stopped(client)
        raise


async def stopped(client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
    """Stops a client within a second or two, whatever state it is in.

    In a task of its own: a consumer whose fetch waits for a retry raises that fetch's cancellation from
    `stop`, where it looks like our own. The rest is ended here: a sender would retry without limit.
    """
    stopping = asyncio.create_task(_stop(client))
    await asyncio.wait({stopping}, timeout=STOP_S)
    if stopping.done() and not stopping.cancelled() and stopping.exception() is None:
        return
    log.debug("a Kafka client was dropped while it was busy")
    if isinstance(client, AIOKafkaProducer):
        client._closed, connection, left = True, client.client, {client._sender.sender_task}
    else:
        connection, left = client._client, set(client._fetcher._pending_tasks if client._fetcher else ())
    closing = asyncio.create_task(connection.close())
    ending = {stopping, *(task for task in left if task is not None)}
    for task in ending:
        task.cancel()
    await asyncio.wait({closing}, timeout=10 * STOP_S)  # takes one iteration of the event loop
    await cancel_tasks({closing, *ending}, STOP_S)


async def _stop(client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
    if isinstance(client, AIOKafkaProducer):  # its own `stop` flushes in a task that can't be cancelled
        await client._message_accumulator.close()
    await client.stop()
