"""How long uploads may take when an attempt ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class UploadDeadline:
    """The time that is left for uploads: as long as they are given, and less if the worker leaves."""

    def __init__(self) -> None:
        self._timeout: asyncio.Timeout | None = None
        self._leave_at_s: float | None = None

    @property
    def is_leaving(self) -> bool:
        """Whether the worker leaves."""
        return self._leave_at_s is not None

    @asynccontextmanager
    async def limit(self, limit_s: float) -> AsyncIterator[None]:
        """Limits what is awaited inside to so many seconds. Raises TimeoutError when they are over."""
        try:
            async with asyncio.timeout(limit_s) as self._timeout:
                self._shorten()
                yield
        finally:
            self._timeout = None  # one that is over can't be limited any more

    def leave(self, grace_s: float) -> None:
        """Limits what is left to so many seconds from now, also if it was given more."""
        self._leave_at_s = asyncio.get_running_loop().time() + grace_s
        self._shorten()

    def _shorten(self) -> None:
        timeout, at_s = self._timeout, self._leave_at_s
        if timeout is not None and at_s is not None and not timeout.expired():
            before_s = timeout.when()
            timeout.reschedule(at_s if before_s is None else min(before_s, at_s))
