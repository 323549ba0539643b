"""Reports which paths below a directory change, as far as the file system tells."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import structlog
from watchfiles import watch

log = structlog.get_logger("trackside.summary_indexer")

GATHER_MS = 50
"""How long changes are gathered at most before they are reported."""
STEP_MS = 15
"""How often the thread looks whether there are changes."""


@asynccontextmanager
async def changes_below(base: str) -> AsyncIterator["ChangeQueue"]:
    """Yields the queue of paths that changed, from a thread that watches while the context lasts.

    Setting up a watch of many directories takes seconds, and must not hold up the rest of the process.
    """
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it logs each time that a file grows
    stop, queue = threading.Event(), ChangeQueue()
    thread = threading.Thread(target=_watch, args=(base, stop, queue), name="summary-changes", daemon=True)
    thread.start()
    try:
        yield queue
    finally:
        stop.set()


class ChangeQueue:
    """Paths that changed since they were last taken."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._paths: set[str] = set()
        self._changed = asyncio.Event()
        self.failed = asyncio.Event()
        """Set when nothing will be reported any more."""

    def put(self, paths: set[str]) -> None:
        """Adds paths, from any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._add, paths)

    def fail(self) -> None:
        """Notes that nothing will be reported any more, from any thread."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.failed.set)

    def _add(self, paths: set[str]) -> None:
        self._paths |= paths
        self._changed.set()

    async def take(self) -> set[str]:
        """Waits for paths that changed, and returns them."""
        await self._changed.wait()
        self._changed.clear()
        paths, self._paths = self._paths, set()
        return paths


def _watch(base: str, stop: threading.Event, queue: ChangeQueue) -> None:
    try:
        found = watch(
            base,
            watch_filter=None,
            debounce=GATHER_MS,
            step=STEP_MS,
            stop_event=stop,
            rust_timeout=1_000,
            raise_interrupt=False,
            ignore_permission_denied=True,
        )
        for changes in found:
            queue.put({path for _, path in changes})
    except Exception as error:  # noqa: BLE001 - what is not reported is found by searching
        if not stop.is_set():
            log.warning("changes are found by looking only", directory=base, reason=str(error))
    queue.fail()
