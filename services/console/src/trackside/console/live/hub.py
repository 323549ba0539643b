"""Passes changes of the read models on to open pages: one listener in Postgres for all of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trackside.console.web.page import ServiceStates
from trackside.projections.notifications import Changes
from trackside.telemetry import metrics


class Subscription:
    """What has changed since an open page was last brought up to date; None for streams: any may have."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._streams: set[str] | None = set()

    def add(self, streams: frozenset[str] | None) -> None:
        """Adds changes; an empty set wakes the page too, since the positions have moved."""
        if streams is None or self._streams is None:
            self._streams = None
        else:
            self._streams |= streams
        self._changed.set()

    @property
    def has_changes(self) -> bool:
        """Whether `changes` returns at once."""
        return self._changed.is_set()

    async def changes(self, within_s: float) -> frozenset[str] | None:
        """Waits for changes at most so long, and returns and forgets them: empty if there were none."""
        try:
            async with asyncio.timeout(within_s):
                await self._changed.wait()
        except TimeoutError:
            return frozenset()
        self._changed.clear()
        found, self._streams = self._streams, set()
        return None if found is None else frozenset(found)


class Hub:
    """All subscriptions, and how often anything has changed."""

    def __init__(self, limit: int) -> None:
        self.version = 0
        self.states = ServiceStates()
        self._limit = limit
        self._subscriptions: set[Subscription] = set()

    @property
    def is_full(self) -> bool:
        """Whether as many pages are open as may be."""
        return len(self._subscriptions) >= self._limit

    async def run(self, changes: AsyncIterator[Changes]) -> None:
        """Passes changes on until cancelled."""
        async for each in changes:
            self.publish(each.streams)

    def publish(self, streams: frozenset[str] | None) -> None:
        """Passes on that streams have changed; None: any may have."""
        self.version += 1
        for subscription in self._subscriptions:
            subscription.add(streams)

    def state(self, subject: str, problem: str) -> None:
        """Notes what is wrong with a service, empty for nothing, and wakes open pages if that is new."""
        if self.states.problems.get(subject, "") != problem:
            self.states.problems.pop(subject, None)
            if problem:
                self.states.problems[subject] = problem
            self.publish(frozenset())

    @asynccontextmanager
    async def subscribed(self) -> AsyncIterator[Subscription]:
        """Yields a subscription for the duration of the block."""
        made = Subscription()
        self._subscriptions.add(made)
        open_pages = metrics.gauge("trackside.console.open.pages")
        open_pages.set(len(self._subscriptions))
        try:
            yield made
        finally:
            self._subscriptions.discard(made)
            open_pages.set(len(self._subscriptions))
