"""Pushes the content of an open page whenever its values change, by server-sent events.

Events: `fragment` (HTML that replaces the elements with its ids), `changed` (charts load again), `position`
(how far the read models are) and `waiting` (what is wrong now; empty: nothing). See
https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from trackside.console.live.hub import Hub, Subscription
from trackside.console.web.application import Pages, explained, position_text
from trackside.console.web.users import User
from trackside.eventlog.clock import monotonic_s
from trackside.telemetry import metrics

KEEP_ALIVE_S = 15.0
TRY_AGAIN_S = 1.0
"""How long after a page could not be rendered it is tried again."""
TELL_S = 1.0
"""How late a page that is being rendered says what has gone wrong meanwhile."""
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 10.0
SHARE = 4.0
"""A page is idle for this many times as long as rendering takes, so that pages take a bounded share.

Within the limits of a pause: the read of a page waits for half a minute for a Postgres that has stopped.
"""
KEPT = 200
"""How many rendered contents are kept for other viewers of the same page."""


@dataclass(slots=True)
class _Rendered:
    """The content of a page for one version of the read models."""

    version: int = -1
    html: str = ""
    problem: str = ""
    streams: frozenset[str] | None = None
    took_s: float = 0.0
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)


class Pushing:
    """The server-sent events of all open pages; viewers of the same page share what is rendered for it."""

    def __init__(self, pages: Pages, hub: Hub, stop: asyncio.Event) -> None:
        self._pages = pages
        self._hub = hub
        self._stop = stop
        self._rendered: OrderedDict[tuple[str, int], _Rendered] = OrderedDict()

    async def answer(self, request: Request) -> Response:
        """Answers with a stream of events for the page in the query `page`."""
        if self._hub.is_full:
            return PlainTextResponse("too many pages are open; this one shows changes when reloaded", 503)
        page, user = request.query_params.get("page", "/"), request.state.user
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._events(page, user), media_type="text/event-stream", headers=headers)

    async def _events(self, page: str, user: User) -> AsyncIterator[str]:
        digest, waiting, position = b"", "", ""
        yield "retry: 1000\n\n"
        async with self._hub.subscribed() as subscription:
            idle_s = 0.0
            streams: frozenset[str] | None = None  # once at the start: the page may be older than this stream
            while not self._stop.is_set():
                rendering = asyncio.create_task(self._content(page, user))
                try:
                    while not rendering.done():
                        if self._hub.states.text not in waiting:
                            waiting = self._hub.states.text
                            yield _event("waiting", waiting)
                        await asyncio.wait({rendering}, timeout=TELL_S)
                finally:
                    rendering.cancel()
                found = rendering.result()
                now = blake2b(found.html.encode(), digest_size=8).digest()
                if found.html and now != digest:
                    digest = now
                    metrics.counter("trackside.console.pushed.fragments").inc()
                    yield _event("fragment", f'<main id="content" class="page">{found.html}</main>')
                if position_text(self._hub.positions) != position:
                    position = position_text(self._hub.positions)
                    yield _event("position", position)
                if streams is None or streams:
                    yield _event("changed", "{}")
                text = " ".join(filter(None, (self._hub.states.text, found.problem)))
                if text != waiting:
                    waiting = text
                    yield _event("waiting", text)
                # The first change after a quiet time is often followed by another: a command by its effect.
                pause_s = min(SHARE * found.took_s - idle_s, LONGEST_PAUSE_S)
                await asyncio.sleep(max(pause_s, SHORTEST_PAUSE_S))
                waits_s = monotonic_s()
                streams = await self._relevant(subscription, found)
                idle_s = monotonic_s() - waits_s
                if streams == frozenset() and not subscription.has_changes:
                    yield ": still here\n\n"

    async def _relevant(self, subscription: Subscription, page: _Rendered) -> frozenset[str] | None:
        """Waits for a change that matters to a page; returns an empty set after a while without one."""
        changed = await subscription.changes(TRY_AGAIN_S if page.problem else KEEP_ALIVE_S)
        if changed is None or page.streams is None:
            return changed
        return changed & page.streams

    async def _content(self, page: str, user: User) -> _Rendered:
        """Renders a page again if a stream that matters to it may have changed since it was rendered."""
        kept = self._rendered.setdefault((page, user.role), _Rendered())
        self._rendered.move_to_end((page, user.role))
        while len(self._rendered) > KEPT:
            self._rendered.popitem(last=False)
        async with kept.busy:
            version = self._hub.version
            if kept.version < 0 or self._hub.has_changed(kept.streams, kept.version):
                began_s = monotonic_s()
                await self._render(page, user, kept)
                kept.took_s = monotonic_s() - began_s
                kept.version = -1 if kept.problem else version  # one that failed is tried again
        return kept

    async def _render(self, page: str, user: User, kept: _Rendered) -> None:
        address = urlsplit(page)
        try:
            with metrics.histogram("trackside.console.render.seconds").time():
                shown, values = await self._pages.shown(address.path, QueryParams(address.query), user)
                kept.html, kept.problem = await self._pages.content(shown, values), ""
            kept.streams = shown.streams
            self._hub.know(values["read_positions"])
        except Exception as error:  # noqa: BLE001 - every error becomes a page
            kept.problem = explained(error)[0]


def _event(name: str, data: Any) -> str:
    lines = "".join(f"data: {line}\n" for line in str(data).split("\n"))
    return f"event: {name}\n{lines}\n"
