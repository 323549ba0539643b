"""Questions to a log that falls silent now and then: asked again until it answers."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from trackside.eventlog.clock import monotonic_s
from trackside.eventlog.errors import TransientError

logger = structlog.get_logger("trackside.eventlog")

PATIENCE_S = 60.0
RETRY_S = 0.2
Answer = TypeVar("Answer")


async def answer(ask: Callable[[], Awaitable[Answer]], what: str, within_s: float | None = None) -> Answer:
    """Asks the log until it answers: it may fall silent also while a service starts.

    Raises TransientError after a minute, or after `within_s`.
    """
    return await until_answered(
        ask,
        lambda reason: logger.warning("waiting for the log", topic=what, reason=reason),
        within_s=PATIENCE_S if within_s is None else within_s,
    )


async def until_answered(
    ask: Callable[[], Awaitable[Answer]],
    silent: Callable[[str], None],
    retry_s: float = RETRY_S,
    within_s: float = math.inf,
) -> Answer:
    """Asks the log until it answers; `silent` is told the reason each time that it doesn't.

    Raises TransientError after `within_s`; without it, asks however long that takes.
    """
    deadline_s = monotonic_s() + within_s
    while True:
        try:
            return await ask()
        except TransientError as error:
            if monotonic_s() >= deadline_s:
                raise
            silent(str(error))
            await asyncio.sleep(retry_s)
