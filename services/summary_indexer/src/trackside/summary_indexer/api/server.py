"""The HTTP server of the summary-indexer: pages of summaries next to `/health`, `/ready` and `/metrics`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import structlog
from aiohttp import web

from trackside.projections.summaries.errors import SummaryReadRefused
from trackside.summary_indexer.api.pages import PAGES, SummaryPage
from trackside.summary_indexer.api.problems import as_refusal, problem
from trackside.summary_indexer.api.reads import ApiReads
from trackside.telemetry.health import Health, measure_loop_lag, respond

log = structlog.get_logger("trackside.summary_indexer")

MAX_TARGET_BYTES = 60 * 1024
"""How long path and query of a request may be together: all characters of a condition may be escaped."""
MAX_LINE_BYTES = 64 * 1024
"""A request with a longer line or header is cut off before it is looked at."""
MAX_REQUESTS = 64
"""How many requests are answered or wait at once."""
REQUEST_LIMIT_S = 60.0
STOP_S = 1.0
"""How long requests may go on when the service ends."""


class SummaryApi:
    """Serves the pages; until `reads` is set they are refused with still_loading."""

    def __init__(self) -> None:
        self.reads: ApiReads | None = None
        self._requests = 0

    @asynccontextmanager
    async def serve(self, health: Health, port: int, *, host: str = "127.0.0.1") -> AsyncIterator[int]:
        """Serves while the block runs and yields the bound port, as `telemetry.health.serve` does."""
        app = web.Application(middlewares=[self._answering], client_max_size=0)
        for path in ("/health", "/ready", "/metrics"):
            app.router.add_get(path, partial(_health_page, health), allow_head=False)
        for path, page, _ in PAGES:
            app.router.add_get(path, partial(self._page, page), allow_head=False)
        runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=STOP_S,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        )
        await runner.setup()
        measuring = asyncio.create_task(measure_loop_lag(health), name="loop-lag")
        try:
            await web.TCPSite(runner, host, port).start()
            yield runner.addresses[0][1]
        finally:
            measuring.cancel()
            await runner.cleanup()
            with suppress(asyncio.CancelledError):
                await measuring

    async def _page(self, page: SummaryPage, request: web.Request) -> web.Response:
        if len(request.raw_path) > MAX_TARGET_BYTES:
            what = f"a request of {len(request.raw_path):,} characters; expected at most {MAX_TARGET_BYTES:,}"
            raise SummaryReadRefused("too_many_values", "", what)
        if self.reads is None:
            raise SummaryReadRefused("still_loading", "", "the index is loading", "try again")
        if self._requests >= MAX_REQUESTS:
            what = f"{MAX_REQUESTS} requests are being answered"
            raise SummaryReadRefused("still_loading", "", what, "try again")
        self._requests += 1
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                return await page(self.reads, request)
        finally:
            self._requests -= 1

    @web.middleware
    async def _answering(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Turns errors into problems; one that nobody expected is logged and stops nothing."""
        try:
            answer = await handler(request)
        except Exception as error:
            refusal = as_refusal(error)
            if refusal is None:
                log.error("request failed", path=request.path[:200], exc_info=error)
                refusal = SummaryReadRefused(
                    "internal_error", "", "an error of the service", "its log has it"
                )
            answer = problem(refusal)
        answer.force_close()  # one answer a connection: none is left open when the service ends
        return answer


async def _health_page(health: Health, request: web.Request) -> web.Response:
    status, content_type, body = respond(health, f"GET {request.path} HTTP/1.1")
    headers = {"Content-Type": content_type, "Cache-Control": "no-store"}
    return web.Response(status=status, body=body, headers=headers)
