"""The HTTP endpoints of a service: `/health`, `/ready`, `/metrics`.

Hand-rolled because three GETs need no framework: bounded requests, one answer a connection.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from trackside.telemetry import metrics
from trackside.telemetry.logs import logger

REQUEST_LIMIT_BYTES: Final = 8 * 1024
REQUEST_LIMIT_S: Final = 5.0
CONNECTIONS_LIMIT: Final = 64
LOOP_LAG_EVERY_S: Final = 0.5

METHODS: Final = ("GET", "HEAD")
_JSON: Final = "application/json"


def _utc_now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - shown to people only


@dataclass(slots=True)
class Health:
    """The health of a service; written by the service, read by the HTTP server below.

    `ready` is set once the log is folded to where it ended at start.
    """

    service: str
    ready: bool = False
    behind: int = 0
    """How many records of the log it has yet to fold until it is ready for the first time."""
    now: Callable[[], datetime] = _utc_now
    lag_s: dict[str, float] = field(default_factory=dict)
    loop_lag_s: float = 0.0
    disk_low: str = ""
    rows_wait: str = ""
    """Why rows that were decided are not written to Postgres; the service is ready, and decides without."""
    denied: list[str] = field(default_factory=list)
    """What the broker does not let the service do, a sentence each; it is not ready meanwhile."""
    parked: int = 0
    """How many streams wait for a newer release; the service is ready, and all others go on."""
    parked_streams: list[str] = field(default_factory=list)
    """Some of them, each with why."""
    scraped: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a client has received `/metrics`."""
    facts: dict[str, object] = field(default_factory=dict)
    """What else a service says in `/ready`, by name."""
    _waiting: tuple[str, datetime] | None = None

    def set_lag(self, topic: str, seconds: float) -> None:
        """Records the age in seconds of the oldest record of `topic` that isn't folded yet; 0 at the end."""
        self.lag_s[topic] = seconds
        metrics.gauge("trackside.health.log_lag.seconds").labels(topic=topic).set(seconds)

    def waiting(self, reason: str | None) -> None:
        """Records what the service waits for, such as `waiting for the log`; None when it continues.

        While it waits it isn't ready. Another reason keeps the time of the first one: since then it waits.
        """
        if reason is None:
            self._waiting = None
        else:
            self._waiting = (reason, self.now() if self._waiting is None else self._waiting[1])

    def set_disk_low(self, sentence: str) -> None:
        """Records which disk is nearly full, "" if none is; a log line tells of each change.

        The service stays ready: it only leaves new tasks where they wait.
        """
        if sentence and not self.disk_low:
            logger("trackside.telemetry").warning("stack.disk_low", service=self.service, reason=sentence)
        elif self.disk_low and not sentence:
            logger("trackside.telemetry").info("stack.disk_low is over", service=self.service)
        self.disk_low = sentence
        metrics.gauge("trackside.health.disk_low.services").set(bool(sentence))

    def set_parked(self, count: int, named: list[str]) -> None:
        """Records how many streams are parked, and why some of them are, for `/ready`."""
        for sentence in named:
            if sentence not in self.parked_streams:
                logger("trackside.telemetry").error("stream.parked", service=self.service, stream=sentence)
        self.parked, self.parked_streams = count, named

    @property
    def is_ready(self) -> bool:
        """Whether the service decides right now."""
        return self.ready and self._waiting is None and not self.denied

    @property
    def waiting_text(self) -> str | None:
        """Returns what the service waits for and since when, or None."""
        if self.denied:
            return f"a right: {self.denied[0].partition(';')[0]}"
        if self._waiting is None:
            late = self.behind and not self.ready
            return f"the end of the log, {self.behind:,} records ahead" if late else None
        reason, since = self._waiting
        return f"{reason} since {since.isoformat(timespec='seconds')}"


@asynccontextmanager
async def serve(health: Health, port: int, *, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """Serves `health` while the block runs and yields the bound port; port 0 lets the system choose.

    Raises OSError if the port is taken. Measures the loop's lag meanwhile.
    """
    connections = _Connections(health)
    server = await asyncio.start_server(connections.connection, host, port, limit=REQUEST_LIMIT_BYTES)
    measuring = asyncio.create_task(measure_loop_lag(health), name="loop-lag")
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        measuring.cancel()
        server.close()
        await connections.stop()
        with suppress(asyncio.CancelledError):
            await measuring


async def measure_loop_lag(health: Health, every_s: float = LOOP_LAG_EVERY_S) -> None:
    """Measures every `every_s` seconds how late this task woke; runs until cancelled."""
    loop = asyncio.get_running_loop()
    lag = metrics.histogram("trackside.health.loop_lag.seconds")
    while True:
        due = loop.time() + every_s
        await asyncio.sleep(every_s)
        health.loop_lag_s = max(0.0, loop.time() - due)
        lag.observe(health.loop_lag_s)


def respond(health: Health, request_line: str, accept: str = "") -> tuple[HTTPStatus, str, bytes]:
    """Returns status, content type and body for the first line of a request and its header Accept.

    The answer to HEAD has the body of GET, which is not sent.
    """
    parts = request_line.split()
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        return _error(HTTPStatus.BAD_REQUEST, "expected: GET /path HTTP/1.1")
    method, target, _ = parts
    if method not in METHODS:
        return _error(HTTPStatus.METHOD_NOT_ALLOWED, f"{method[:16]} is not supported, only GET and HEAD")
    match target.partition("?")[0]:
        case "/health":
            return _json(HTTPStatus.OK, _health(health))
        case "/ready":
            return _json(HTTPStatus.OK if health.is_ready else HTTPStatus.SERVICE_UNAVAILABLE, _ready(health))
        case "/metrics":
            metrics.gauge("trackside.health.ready.services").set(health.is_ready)
            return HTTPStatus.OK, *metrics.exposition(accept)
        case _:
            return _error(HTTPStatus.NOT_FOUND, "available: /health, /ready and /metrics")


def is_scrape(request_line: str) -> bool:
    """Returns whether the first line of a request is one for `/metrics`, with its body."""
    return request_line.startswith(("GET /metrics ", "GET /metrics?"))


class _Connections:
    """Serves connections, at most CONNECTIONS_LIMIT at a time, and can close them all."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._open: set[asyncio.Task[None]] = set()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        self._open.add(this)
        try:
            await self._exchange(reader, writer)
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            pass  # the client is gone or stalled, or the service ends
        finally:
            self._open.discard(this)
            writer.close()

    async def stop(self) -> None:
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) > CONNECTIONS_LIMIT:
            request = ""
            status, content_type, body = _error(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")
        else:
            request, (status, content_type, body) = await self._read_and_answer(reader)
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode("ascii") + (b"" if request.startswith("HEAD ") else body))
        async with asyncio.timeout(REQUEST_LIMIT_S):
            await writer.drain()
        if is_scrape(request):
            self._health.scraped.set()

    async def _read_and_answer(
        self, reader: asyncio.StreamReader
    ) -> tuple[str, tuple[HTTPStatus, str, bytes]]:
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            message = f"over {REQUEST_LIMIT_BYTES} bytes"
            return "", _error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, message)
        except asyncio.IncompleteReadError:
            return "", _error(HTTPStatus.BAD_REQUEST, "the request ended before its empty line")
        request, *headers = head.decode("latin-1").split("\r\n")
        accept = (line[7:].strip() for line in headers if line[:7].lower() == "accept:")
        return request, respond(self._health, request, ",".join(accept))


def _health(health: Health) -> dict[str, object]:
    return {"service": health.service, "alive": True, "loop_lag_s": round(health.loop_lag_s, 6)}


def _ready(health: Health) -> dict[str, object]:
    degraded: dict[str, object] = {"disk_low": health.disk_low} if health.disk_low else {}
    if health.rows_wait:
        degraded["rows"] = health.rows_wait
    if health.denied:
        degraded["denied"] = health.denied
    if health.behind and not health.ready:
        degraded["behind"] = health.behind
    if health.parked:
        degraded["parked"] = {"streams": health.parked, "some": health.parked_streams}
    return {**health.facts, **degraded} | {
        "service": health.service,
        "ready": health.is_ready,
        "lag_s": health.lag_s,
        "waiting": health.waiting_text,
    }


def _json(status: HTTPStatus, body: dict[str, object]) -> tuple[HTTPStatus, str, bytes]:
    return status, _JSON, json.dumps(body).encode() + b"\n"


def _error(status: HTTPStatus, message: str) -> tuple[HTTPStatus, str, bytes]:
    return _json(status, {"error": message})
