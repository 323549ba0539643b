"""The HTTP server of the summary-indexer: pages of summaries next to `/health`, `/ready` and `/metrics`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import structlog
from aiohttp import web

from trackside.projections.summaries.errors import SummaryReadRefused, quoted
from trackside.summary_indexer.api.pages import PAGES, SummaryPage
from trackside.summary_indexer.api.problems import as_refusal, problem
from trackside.summary_indexer.api.reads import ApiReads
from trackside.telemetry.health import Health, is_scrape, measure_loop_lag, respond
from trackside.telemetry.local_names import is_local, is_local_name

log = structlog.get_logger("trackside.summary_indexer")

MAX_TARGET_BYTES = 60 * 1024
"""How long path and query of a request may be together: all characters of a condition may be escaped."""
MAX_LINE_BYTES = 64 * 1024
"""A request with a longer line or header is cut off before it is looked at."""
LINGER_S = 1.0
"""How long a body that no request should have is read after its answer."""
STOP_S = 1.0
"""How long requests may go on when the service ends."""


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """What clients may take of the service together, and how long each of them."""

    connections: int = 256
    """How many are open at once; more are closed at once."""
    head_s: float = 10.0
    """How long a client may take for its request."""
    requests: int = 64
    """How many requests are answered, or wait until their answers are taken, at once."""
    request_s: float = 60.0
    """How long a request may be answered."""
    send_s: float = 30.0
    """How long a client may take for an answer, in addition to the time of its bytes."""
    send_bytes_per_s: float = 2**20
    """How fast a client takes these at least."""


class SummaryApi:
    """Serves the pages; until `reads` is set they are refused with still_loading."""

    def __init__(self, limits: ApiLimits | None = None) -> None:
        self.reads: ApiReads | None = None
        self._limits = limits or ApiLimits()
        self._requests = 0
        self._only_local = True

    @asynccontextmanager
    async def serve(self, health: Health, port: int, *, host: str = "127.0.0.1") -> AsyncIterator[int]:
        """Serves while the block runs and yields the bound port, as `telemetry.health.serve` does."""
        self._only_local = is_local(host)
        app = web.Application(middlewares=[self._answering], client_max_size=0)
        for path in ("/health", "/ready", "/metrics"):
            app.router.add_get(path, partial(_health_page, health))
        for path, page, _ in PAGES:
            app.router.add_get(path, partial(self._page, page))
        runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=STOP_S,
            keepalive_timeout=self._limits.head_s,
            lingering_time=LINGER_S,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        )
        await runner.setup()
        assert runner.server is not None
        loop = asyncio.get_running_loop()
        measuring = asyncio.create_task(measure_loop_lag(health), name="loop-lag")
        try:
            server = await loop.create_server(partial(self._accepted, runner.server), host, port)
            try:
                yield server.sockets[0].getsockname()[1]
            finally:
                server.close()
        finally:
            measuring.cancel()
            await runner.cleanup()
            with suppress(asyncio.CancelledError):
                await measuring

    def _accepted(self, server: web.Server) -> asyncio.BaseProtocol:
        """Returns what serves another connection; there is room for `/ready` unless a flood takes it all."""
        is_full = len(server.connections) >= self._limits.connections
        return _Closed() if is_full else server()

    async def _page(self, page: SummaryPage, request: web.Request) -> web.Response:
        host = request.headers.get("Host", "")
        if self._only_local and not is_local_name(host):
            # A page of the web whose name leads here must not read what is here (DNS rebinding).
            what = f"{quoted(host)} is not a name of this service"
            raise SummaryReadRefused("bad_query", "Host", what, "expected localhost or an IP address")
        if len(request.raw_path) > MAX_TARGET_BYTES:
            what = f"a request of {len(request.raw_path):,} characters; expected at most {MAX_TARGET_BYTES:,}"
            raise SummaryReadRefused("too_many_values", "", what)
        if self.reads is None:
            raise SummaryReadRefused("still_loading", "", "the index is loading", "try again")
        if self._requests >= self._limits.requests:
            what = f"{self._limits.requests} requests are being answered"
            raise SummaryReadRefused("still_loading", "", what, "try again")
        self._requests += 1
        try:
            async with asyncio.timeout(self._limits.request_s):
                answer = await page(self.reads, request)
            await self._send(request, answer)
        finally:
            self._requests -= 1
        return answer

    async def _send(self, request: web.Request, answer: web.Response) -> None:
        """Sends an answer; cuts off a client that doesn't take it, with what it holds in memory."""
        answer.force_close()
        body = answer.body
        size_bytes = len(body) if isinstance(body, bytes) else 0
        limit_s = self._limits.send_s + size_bytes / self._limits.send_bytes_per_s
        try:
            async with asyncio.timeout(limit_s):
                await answer.prepare(request)
                await answer.write_eof()
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()

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


class _Closed(asyncio.Protocol):
    """Closes a connection for which there is no room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Closes it."""
        transport.close()


async def _health_page(health: Health, request: web.Request) -> web.Response:
    accept = ",".join(request.headers.getall("Accept", ()))
    request_line = f"{request.method} {request.path} HTTP/1.1"
    status, content_type, body = respond(health, request_line, accept)
    if is_scrape(request_line):
        health.scraped.set()
    headers = {"Content-Type": content_type, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return web.Response(status=status, body=body, headers=headers)
