"""Repeats requests to Kafka while the brokers can't be reached."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError

logger = structlog.get_logger("trackside.eventlog")

TIMEOUT_S = 60.0
RETRY_S = 0.2
Response = TypeVar("Response")


async def retry_with_timeout(
    request: Callable[[], Awaitable[Response]], topic: str, timeout_s: float | None = None
) -> Response:
    """Repeats a request about a topic until the log answers; the log may be down while a service starts.

    Raises TransientError after `timeout_s` seconds, a minute by default.
    """
    return await retry_until_reachable(
        request,
        lambda reason: logger.warning("waiting for the log", topic=topic, reason=reason),
        timeout_s=TIMEOUT_S if timeout_s is None else timeout_s,
    )


async def retry_until_reachable(
    request: Callable[[], Awaitable[Response]],
    on_failure: Callable[[str], None],
    retry_s: float = RETRY_S,
    timeout_s: float = math.inf,
) -> Response:
    """Repeats a request every `retry_s` seconds until the log answers; calls `on_failure` with each reason.

    Raises TransientError after `timeout_s` seconds; without it, there is no limit.
    """
    deadline_s = monotonic_s() + timeout_s
    while True:
        try:
            return await request()
        except TransientError as error:
            if monotonic_s() >= deadline_s:
                raise
            on_failure(str(error))
            await asyncio.sleep(retry_s)
