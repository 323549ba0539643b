"""The HTTP front of an inference service on loopback: POST /predict, GET /model, GET /healthz."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from aiohttp import web

from trackside.incremental.serving.serving_messages import plain_value
from trackside.telemetry.local_names import is_local_name

HOST = "127.0.0.1"
STOP_S = 1.0
"""How long requests may take when the service ends."""
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
HINT = "POST /predict, GET /model, GET /healthz"
JSON_HINT = "curl -H 'Content-Type: application/json' -d '{\"inputs\": ...}'"


@dataclass(frozen=True, slots=True)
class FrontLimits:
    """What clients may take of a service together, and how long each of them."""

    body_bytes: int = 16 * 2**20
    """The size of a request."""
    request_s: float = 30.0
    """How long a client may take for its request, or for its answer."""
    predict_s: float = 60.0
    """How long an answer may be computed, waiting included."""
    requests: int = 256
    """How many requests wait, or are answered, at once."""


class HttpAnswer(NamedTuple):
    """A value for JSON, or its bytes, with status and headers."""

    body: Mapping[str, Any] | bytes
    status: int = 200
    headers: Mapping[str, str] = {}


class HttpProblem(Exception):
    """A request that isn't answered; the client gets code, path, message and hint."""

    def __init__(self, status: int, code: str, message: str, hint: str = "", path: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.error = {"code": code, "path": path, "message": message, "hint": hint}


class HttpFront:
    """Serves in a thread with a loop of its own; `predict` runs in `threads` others, `model` must not wait.

    `predict` gets the inputs of a request, and returns its answer or raises HttpProblem.
    """

    def __init__(
        self,
        predict: Callable[[Any], HttpAnswer],
        model: Callable[[], HttpAnswer],
        threads: int = 1,
        limits: FrontLimits | None = None,
    ) -> None:
        self._predict = predict
        self._model = model
        self._limits = limits or FrontLimits()
        self._pool = ThreadPoolExecutor(threads, "predict")
        self._waiting = 0

    @contextmanager
    def serve(self, port: int = 0) -> Iterator[str]:
        """Serves while the block runs; yields the address. Raises OSError for a port that is taken."""
        started: Future[tuple[str, Callable[[], None]]] = Future()
        thread = threading.Thread(target=self._run, args=(port, started), name="http-front", daemon=True)
        thread.start()
        address, stop = started.result()
        try:
            yield address
        finally:
            stop()
            thread.join()
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self, port: int, started: Future[tuple[str, Callable[[], None]]]) -> None:
        async def serve() -> None:
            loop, stopping = asyncio.get_running_loop(), asyncio.Event()
            runner = await self._start(port)
            address = f"http://{HOST}:{runner.addresses[0][1]}"
            started.set_result((address, partial(_set, loop, stopping)))
            await stopping.wait()
            await runner.cleanup()

        try:
            asyncio.run(serve())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _start(self, port: int) -> web.AppRunner:
        app = web.Application(middlewares=[self._answering], client_max_size=self._limits.body_bytes)
        app.router.add_post("/predict", self._answer_predict)
        app.router.add_get("/model", self._answer_model)
        app.router.add_get("/healthz", self._answer_model)
        runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=STOP_S,
            keepalive_timeout=self._limits.request_s,
            lingering_time=STOP_S,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, port).start()
        except OSError:
            await runner.cleanup()
            raise
        return runner

    @web.middleware
    async def _answering(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Turns problems into answers; sends each within the time that a client may take for it."""
        try:
            if not is_local_name(request.headers.get("Host", "")):
                # A page of the web whose name leads here must not read what is here (DNS rebinding).
                raise HttpProblem(
                    403, "bad_host", "not a name of this service", "expected localhost or an IP address"
                )
            answer = await handler(request)
        except HttpProblem as problem:
            answer = _written(HttpAnswer({"error": problem.error}, problem.status))
        except web.HTTPException as error:
            answer = _written(_refusal(error))
        try:
            async with asyncio.timeout(self._limits.request_s):
                await answer.prepare(request)
                await answer.write_eof()
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        return answer

    async def _answer_model(self, request: web.Request) -> web.StreamResponse:
        return _written(self._model())

    async def _answer_predict(self, request: web.Request) -> web.StreamResponse:
        if self._waiting >= self._limits.requests:
            raise HttpProblem(503, "busy", f"{self._waiting} requests are being answered", "try again")
        self._waiting += 1
        try:
            inputs = await self._inputs(request)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(self._limits.predict_s):
                return await loop.run_in_executor(self._pool, partial(self._compute, inputs))
        except TimeoutError:
            limit = f"{self._limits.predict_s:g} s"
            raise HttpProblem(503, "predict_timeout", f"no answer within {limit}", "try again") from None
        finally:
            self._waiting -= 1

    def _compute(self, inputs: Any) -> web.StreamResponse:
        """Computes and encodes an answer, in a thread of the pool."""
        return _written(self._predict(inputs))

    async def _inputs(self, request: web.Request) -> Any:
        """Returns the inputs of a request. A page of the web can send no JSON to another host unasked."""
        if request.content_type != "application/json":
            expected = "expected Content-Type: application/json"
            raise HttpProblem(415, "bad_content_type", expected, JSON_HINT)
        try:
            async with asyncio.timeout(self._limits.request_s):
                body = json.loads(await request.read(), parse_constant=_refuse_constant)
        except TimeoutError:
            raise HttpProblem(408, "request_timeout", "the request did not come in time") from None
        except (ValueError, RecursionError) as error:
            raise HttpProblem(400, "bad_json", f"not JSON: {error}", 'expected {"inputs": ...}') from None
        if not isinstance(body, dict) or "inputs" not in body:
            raise HttpProblem(400, "bad_json", "no inputs", 'expected {"inputs": ...}', "$.inputs")
        return body["inputs"]


def _set(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    """Sets an event of the loop of another thread."""
    loop.call_soon_threadsafe(event.set)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def encoded(body: Mapping[str, Any]) -> bytes:
    """Returns a value as JSON. Raises HttpProblem for what JSON can't hold."""
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False, default=plain_value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        hint = "predict must return what JSON can hold, or arrays of finite numbers"
        raise HttpProblem(500, "bad_outputs", str(error)[:500], hint, "$.outputs") from None


def _written(answer: HttpAnswer) -> web.Response:
    content = answer.body if isinstance(answer.body, bytes) else encoded(answer.body)
    headers = {**HEADERS, **answer.headers}
    return web.Response(body=content, status=answer.status, content_type="application/json", headers=headers)


def _refusal(error: web.HTTPException) -> HttpAnswer:
    codes = {404: "unknown_page", 405: "bad_method", 413: "body_too_large"}
    code = codes.get(error.status, "bad_request")
    fields = {"code": code, "path": "", "message": error.reason, "hint": HINT}
    return HttpAnswer({"error": fields}, error.status)
