"""The HTTP front of an inference service: what it refuses, and what slow or many clients get."""

import asyncio
import math
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from trackside.incremental.serving.http_front import FrontLimits, HttpAnswer, HttpFront, HttpProblem


def predict(inputs: Any) -> HttpAnswer:
    if inputs == "bad":
        raise HttpProblem(500, "predict_failed", "predict raised ValueError: bad")
    return HttpAnswer({"outputs": math.nan if inputs == "nan" else inputs})


@pytest.fixture
def front() -> Iterator[str]:
    limits = FrontLimits(body_bytes=200_000)
    with HttpFront(predict, lambda: HttpAnswer({"version": 1}), limits=limits).serve() as address:
        yield address


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"{", {}, 400, "bad_json"),
        (b"[]", {}, 400, "bad_json"),
        (b'{"inputs": NaN}', {}, 400, "bad_json"),
        (b"[" * 100_000, {}, 400, "bad_json"),
        (b'{"inputs": "nan"}', {}, 500, "bad_outputs"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "bad_content_type"),
        (b'{"inputs": 1}', {"Host": "evil.example"}, 403, "bad_host"),
        (b'{"inputs": 1}', {"Host": "0.0.0.0"}, 403, "bad_host"),
        (b" " * 200_001, {}, 413, "body_too_large"),
        (b'{"inputs": "bad"}', {}, 500, "predict_failed"),
    ],
)
async def test_a_bad_request_is_answered_with_a_problem(
    front: str, body: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    sent: Any = {"data": body, "headers": {"Content-Type": "application/json", **headers}}
    async with aiohttp.ClientSession() as session, session.post(f"{front}/predict", **sent) as answer:
        found = await answer.json()
        assert (answer.status, found["error"]["code"]) == (status, code)
        assert found["error"]["hint"] or status in (403, 500), "what a client can repair has a hint"


async def test_the_model_and_the_health_of_the_service_are_shown(front: str) -> None:
    async with aiohttp.ClientSession() as session:
        for page in ("model", "healthz"):
            async with session.get(f"{front}/{page}") as answer:
                assert (answer.status, await answer.json()) == (200, {"version": 1})
        async with session.get(f"{front}/") as answer:
            found = await answer.json()
            assert (answer.status, found["error"]["code"]) == (404, "unknown_page")
            assert "/predict" in found["error"]["hint"]
        async with session.get(f"{front}/predict") as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (405, "bad_method")


JSON = b"Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{"
HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(("sent", "answer"), [(b"", b""), (HEAD, b""), (HEAD + JSON, b"HTTP/1.1 408 ")])
def test_a_client_that_sends_no_whole_request_is_cut_off(sent: bytes, answer: bytes) -> None:
    front = HttpFront(predict, lambda: HttpAnswer({}), limits=FrontLimits(request_s=0.2))
    with front.serve() as address, socket.create_connection(place_of(address), timeout=30) as client:
        client.sendall(sent)
        assert client.recv(13) == answer


async def test_more_requests_than_may_wait_and_those_that_take_too_long_are_refused() -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(inputs: Any) -> HttpAnswer:
        entered.set()
        leave.wait()
        return HttpAnswer({"outputs": inputs})

    limits = FrontLimits(requests=1, predict_s=0.5)
    with HttpFront(slow, lambda: HttpAnswer({"version": 1}), limits=limits).serve() as address:
        async with aiohttp.ClientSession() as session:
            first = asyncio.create_task(code_of(session, address))
            await asyncio.to_thread(entered.wait)
            assert await code_of(session, address) == (503, "busy")
            async with session.get(f"{address}/healthz") as answer:
                assert answer.status == 200, "a model that computes does not make it silent"
            assert await first == (503, "predict_timeout")
            leave.set()


async def code_of(session: aiohttp.ClientSession, address: str) -> tuple[int, str]:
    async with session.post(f"{address}/predict", json={"inputs": 1}) as answer:
        return answer.status, (await answer.json())["error"]["code"]


def place_of(address: str) -> tuple[str, int]:
    parts = urlsplit(address)
    assert parts.hostname is not None and parts.port is not None
    return parts.hostname, parts.port


def test_a_port_that_is_taken_is_an_error(front: str) -> None:
    other = HttpFront(predict, lambda: HttpAnswer({}))
    with pytest.raises(OSError, match="address already in use"), other.serve(place_of(front)[1]):
        pass
