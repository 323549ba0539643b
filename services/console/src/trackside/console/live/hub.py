"""Passes changes of the read models on to open pages: one listener in Postgres for all of them."""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from trackside.console.web.page import Alerts, ServiceStates
from trackside.projections.database.notifications import Changes, OwnedPosition
from trackside.telemetry import metrics

REMEMBERED = 10_000
"""Of how many streams it is remembered when they have changed."""
UNSEEN_TIMES = 10
"""How many times as long the services are left alone while no page is open."""


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
    """All subscriptions, what has changed when, and how far the read models are.

    `version` counts the changes; `positions` are the newest that were read or notified;
    `states` and `alerts` are what else pages say of the installation.
    """

    def __init__(self, limit: int) -> None:
        self.version = 0
        self.positions: dict[OwnedPosition, int] = {}
        self.states = ServiceStates()
        self.alerts = Alerts()
        self._changed_at: OrderedDict[str, int] = OrderedDict()
        self._any_changed_at = 0
        self._limit = limit
        self._subscriptions: set[Subscription] = set()
        self._opened = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether as many pages are open as may be."""
        return len(self._subscriptions) >= self._limit

    async def run(self, changes: AsyncIterator[Changes]) -> None:
        """Passes changes on until cancelled."""
        async for each in changes:
            known = {place: at for place, at in each.positions.items() if place in self.positions}
            self.publish(each.streams, known)  # others may be forged, and are read with the next page

    def publish(self, streams: frozenset[str] | None, positions: Mapping[OwnedPosition, int] = {}) -> None:
        """Passes on that streams have changed; None: any may have."""
        self.version += 1
        self.know(positions)
        if streams is None:
            self._any_changed_at = self.version
        for stream_id in streams or ():
            self._changed_at[stream_id] = self.version
            self._changed_at.move_to_end(stream_id)
        while len(self._changed_at) > REMEMBERED:
            self._any_changed_at = max(self._any_changed_at, self._changed_at.popitem(last=False)[1])
        for subscription in self._subscriptions:
            subscription.add(streams)

    def know(self, positions: Mapping[OwnedPosition, int]) -> None:
        """Notes how far the read models are; what was read before the newest notification says less."""
        for place, position in positions.items():
            self.positions[place] = max(position, self.positions.get(place, 0))

    def has_changed(self, streams: frozenset[str] | None, since: int) -> bool:
        """Returns whether any of these streams may have changed after a version; None: anything at all."""
        if streams is None:
            return self.version > since
        at = max((self._changed_at.get(each, 0) for each in streams), default=0)
        return max(at, self._any_changed_at) > since

    def state(self, subject: str, problem: str) -> None:
        """Notes what is wrong with a service, empty for nothing, and wakes open pages if that is new."""
        if self.states.problems.get(subject, "") != problem:
            self.states.problems.pop(subject, None)
            if problem:
                self.states.problems[subject] = problem
            self.publish(frozenset())

    async def pause(self, seconds: float) -> None:
        """Waits so long; while no page is open, ten times as long, or until one is opened."""
        if self._subscriptions:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(UNSEEN_TIMES * seconds):
                await self._opened.wait()

    @asynccontextmanager
    async def subscribed(self) -> AsyncIterator[Subscription]:
        """Yields a subscription for the duration of the block."""
        made = Subscription()
        self._subscriptions.add(made)
        self._opened.set()
        open_pages = metrics.gauge("trackside.console.open.pages")
        open_pages.set(len(self._subscriptions))
        try:
            yield made
        finally:
            self._subscriptions.discard(made)
            if not self._subscriptions:
                self._opened.clear()
            open_pages.set(len(self._subscriptions))
