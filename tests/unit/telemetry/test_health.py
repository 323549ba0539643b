import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from trackside.telemetry import health
from trackside.telemetry.health import Health, serve


@dataclass(frozen=True)
class Reply:
    status: int
    head: str
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


async def send(port: int, request: bytes) -> Reply:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    return Reply(int(head.split()[1]), head.decode(), body)


async def get(port: int, path: str) -> Reply:
    return await send(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


@pytest.fixture
def state() -> Health:
    return Health("dispatcher")


@pytest.fixture
async def port(state: Health) -> AsyncIterator[int]:
    async with serve(state, 0) as bound:
        yield bound


async def test_a_service_whose_loop_runs_is_healthy_before_it_is_ready(port: int) -> None:
    healthy, ready = await get(port, "/health"), await get(port, "/ready")
    assert (healthy.status, healthy.json()["service"], healthy.json()["alive"]) == (200, "dispatcher", True)
    assert (ready.status, ready.json()["ready"]) == (503, False)


async def test_a_ready_service_tells_its_lag_by_topic_and_a_low_disk(port: int, state: Health) -> None:
    state.ready = True
    state.set_lag("trackside.events", 0.25)
    reply = await get(port, "/ready?verbose=1")
    told = {"service": "dispatcher", "ready": True, "lag_s": {"trackside.events": 0.25}, "waiting": None}
    assert (reply.status, reply.json()) == (200, told)
    state.set_disk_low("the disk of /data is nearly full")
    reply = await get(port, "/ready")
    assert (reply.status, reply.json()["disk_low"]) == (200, "the disk of /data is nearly full")
    state.set_disk_low("")
    assert "disk_low" not in (await get(port, "/ready")).json()


async def test_a_service_whose_rows_wait_for_postgres_is_ready_and_says_so(port: int, state: Health) -> None:
    state.ready, state.rows_wait = True, "waiting for Postgres: no answer"
    reply = await get(port, "/ready")
    assert (reply.status, reply.json()["rows"]) == (200, "waiting for Postgres: no answer")


async def test_a_service_cut_off_from_the_log_is_not_ready_and_says_since(port: int, state: Health) -> None:
    times = iter([datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) + timedelta(seconds=n) for n in range(9)])
    state.now = lambda: next(times)
    state.ready = True
    state.waiting("waiting for the log")
    state.waiting("waiting for the log")
    reply = await get(port, "/ready")
    assert reply.status == 503
    assert reply.json()["waiting"] == "waiting for the log since 2026-01-02T03:04:05+00:00"
    state.waiting(None)
    assert (await get(port, "/ready")).status == 200


async def test_metrics_are_in_the_text_format_and_in_openmetrics_if_asked(port: int, state: Health) -> None:
    state.ready = True
    state.set_lag("trackside.fleet", 1.5)
    reply = await get(port, "/metrics")
    assert "text/plain; version=0.0.4" in reply.head
    assert b'trackside_health_log_lag_seconds{topic="trackside.fleet"} 1.5' in reply.body
    assert b"trackside_health_ready_services 1.0" in reply.body
    assert b"trackside_health_loop_lag_seconds" in reply.body
    state.scraped.clear()
    accept = b"Accept: application/openmetrics-text;version=1.0.0"
    reply = await send(port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + accept + b"\r\n\r\n")
    assert "application/openmetrics-text" in reply.head
    assert reply.body.endswith(b"# EOF\n")
    assert state.scraped.is_set()


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
async def test_head_is_answered_like_get_without_the_body(port: int, state: Health, path: str) -> None:
    state.ready = True
    head = await send(port, f"HEAD {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert (head.status, head.body) == (200, b"")
    assert "Content-Length: 0" not in head.head
    assert not state.scraped.is_set()


@pytest.mark.parametrize(
    ("octets", "status"),
    [
        (b"GET /secrets HTTP/1.1\r\n\r\n", 404),
        (b"POST /ready HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"\xff\xfe\x00\r\n\r\n", 400),
        (b"GET /ready\r\n\r\n", 400),
        (b"GET /ready HTTP/2.0\r\n\r\n", 400),
        (b"GET /ready HTTP/1.1\r\n", 400),
        (b"GET /" + b"a" * (health.REQUEST_LIMIT_BYTES + 1), 431),
    ],
    ids=["path", "method", "octets", "no version", "version", "early", "long"],
)
async def test_a_bad_request_is_answered_and_the_next_works(port: int, octets: bytes, status: int) -> None:
    reply = await send(port, octets)
    assert (reply.status, bool(reply.json()["error"])) == (status, True)
    assert (await get(port, "/health")).status == 200


async def test_a_silent_client_is_dropped_after_the_limit(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "REQUEST_LIMIT_S", 0.01)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.read() == b""
    writer.close()


async def test_stopping_ends_open_connections_and_frees_the_port(state: Health) -> None:
    async with serve(state, 0) as chosen:
        reader, writer = await asyncio.open_connection("127.0.0.1", chosen)
        writer.write(b"GET /he")
        await get(chosen, "/health")  # connections are accepted in order, so the first one is open by now
    assert await reader.read() == b""
    writer.close()
    async with serve(state, chosen) as again:
        assert (await get(again, "/health")).status == 200


async def test_a_taken_port_is_refused_by_number(port: int, state: Health) -> None:
    with pytest.raises(OSError, match=str(port)):
        async with serve(state, port):
            pass


async def test_loop_lag_is_measured(state: Health) -> None:
    measured = asyncio.Event()

    class Watched(Health):
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "loop_lag_s" and value:
                measured.set()

    task = asyncio.create_task(health.measure_loop_lag(Watched("scheduler"), every_s=0.001))
    async with asyncio.timeout(60):
        await measured.wait()
    task.cancel()
