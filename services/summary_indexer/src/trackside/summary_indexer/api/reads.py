"""What the pages read with."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from trackside.artifacts.store import Store
from trackside.summary_indexer.detail.loads import CurveReads

T = TypeVar("T")


class DaemonThreads:
    """Runs functions in at most `most` threads at once. When the process ends, they end too."""

    def __init__(self, most: int) -> None:
        self._room = asyncio.Semaphore(most)

    async def run(self, work: Callable[[], T]) -> T:
        """Returns what `work` returns, or raises what it raises; waits while all threads are in use.

        A caller that is cancelled doesn't end the thread, which counts until it ends by itself.
        """
        await self._room.acquire()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def end(settle: Callable[[Any], None], outcome: Any) -> None:
            self._room.release()
            if not future.done():
                settle(outcome)

        def run() -> None:
            try:
                settle, outcome = future.set_result, work()
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                settle, outcome = future.set_exception, error  # type: ignore[assignment]
            with suppress(RuntimeError):  # the loop has ended: so does the process
                loop.call_soon_threadsafe(end, settle, outcome)

        threading.Thread(target=run, daemon=True, name="summary read").start()
        return await future


THREADS = 4
"""How many requests read or decode bytes at once."""


@dataclass(frozen=True, slots=True)
class ApiReads:
    """What the pages read with; `store` is None where the installation has none."""

    curves: CurveReads
    store: Store | None
    threads: DaemonThreads = field(default_factory=lambda: DaemonThreads(THREADS))
