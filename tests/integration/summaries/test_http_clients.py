"""Clients that are slow, go away, flood, or send what is no request: the others are answered."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.integration.summaries.given import items, points
from tests.integration.summaries.site import Site, served
from tests.polling import poll_until
from trackside.summaries.event_files.values import Image
from trackside.summary_indexer.api.server import ApiLimits

READY = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0"
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[ApiLimits], Awaitable[Site]]


@pytest.fixture
async def serve(database: str, tmp_path: Path) -> AsyncIterator[Serve]:
    async with AsyncExitStack() as stack:
        yield lambda limits: stack.enter_async_context(served(database, tmp_path, limits, read_limit_s=15))


@asynccontextmanager
async def connected(site: Site, sent: str | bytes = b"") -> AsyncIterator[Stream]:
    """Opens a connection and sends a part of a request, or nothing."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", int(site.address.rpartition(":")[2]), limit=2**16
    )
    writer.write(sent.encode() if isinstance(sent, str) else sent)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer_to(site: Site, request: str | bytes) -> bytes:
    async with connected(site, request) as (reader, _):
        return await reader.read()


@pytest.mark.long
async def test_two_hundred_clients_that_do_not_end_their_requests_are_cut_off(serve: Serve) -> None:
    site = await serve(ApiLimits(head_s=1.5))
    async with AsyncExitStack() as stack:
        slow = [
            await stack.enter_async_context(connected(site, READY[: at % len(READY)])) for at in range(200)
        ]
        assert (await site.get("/summaries/jobs"))[0] == 200
        assert (await site.get("/health"))[0] == 200
        assert await asyncio.gather(*(reader.read() for reader, _ in slow)) == [b""] * 200


async def test_more_connections_than_may_be_open_are_closed_and_there_is_room_again(serve: Serve) -> None:
    site = await serve(ApiLimits(connections=5))
    async with AsyncExitStack() as stack:
        held = [await stack.enter_async_context(connected(site)) for _ in range(5)]
        assert await answer_to(site, b"") == b""
        for _, writer in held:
            writer.write(READY.encode())
        assert all(b"200 OK" in each for each in [await reader.read() for reader, _ in held])
    assert b"200 OK" in await answer_to(site, READY)


@pytest.mark.long
async def test_clients_that_do_not_take_their_answers_hold_their_places_for_a_time(serve: Serve) -> None:
    """An answer is in memory until it is sent, so it counts until then."""
    site = await serve(ApiLimits(requests=3, send_s=3, send_bytes_per_s=2**40))
    picture = site.item("image", Image(PNG + bytes(8 * 2**20), 3, 2))
    await site.rows.write(items("j", picture), points("j", "loss", [1.0]))
    wanted = "GET /summaries/jobs/j/images/a/0 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with AsyncExitStack() as stack:
        held = [await stack.enter_async_context(connected(site, wanted)) for _ in range(3)]
        for reader, _ in held:
            await reader.readexactly(1_000)
        status, refused = await site.get("/summaries/jobs")
        assert (status, refused["error"]["code"]) == (503, "still_loading")
        assert (await site.get("/health"))[0] == 200, "which needs no place"

        async def has_room() -> bool:
            return (await site.get("/summaries/jobs"))[0] == 200

        await poll_until(has_room)
        for reader, _ in held:
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(8 * 2**20)


async def test_what_is_no_request_and_requests_that_are_cut_off_stop_nothing(serve: Serve) -> None:
    site = await serve(ApiLimits(head_s=0.5))
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    await site.rows.write(points("j", "loss", [1.0]))
    whole = b"GET /summaries/scalars?job=j HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for cut in range(0, len(whole), 7):
        async with connected(site, whole[:cut]):
            pass
    async with connected(site, whole):
        pass  # gone before its answer
    for bad in (
        b"\0" * 100,
        b"\x16\x03\x01" + chance.randbytes(200) + b"\r\n\r\n",  # as TLS begins
        chance.randbytes(2_000) + b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /summaries/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n",
    ):
        answered = await answer_to(site, bad)
        assert answered == b"" or answered.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answered[:200]
    assert (await site.get("/summaries/scalars", job="j"))[0] == 200


async def test_a_head_request_has_no_body_and_a_connection_one_answer(site: Site) -> None:
    await site.rows.write(points("j", "loss", [1.0]))
    rest = "/summaries/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n"
    head, _, body = (await answer_to(site, f"HEAD {rest}")).partition(b"\r\n\r\n")
    assert b"200 OK" in head and body == b""
    twice = await answer_to(site, f"GET {rest}" * 2)
    head, _, body = twice.partition(b"\r\n\r\n")
    assert b"connection: close" in head.lower() and twice.count(b"HTTP/1.1 ") == 1
    for header in (b"X-Content-Type-Options: nosniff", b"Cross-Origin-Resource-Policy: same-origin"):
        assert header in head
    for method in ("PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"):
        answered = await answer_to(site, f"{method} {rest}")
        assert answered.startswith(b"HTTP/1.1 405 ") and b"bad_method" in answered, method


async def test_a_page_of_the_web_can_not_read_by_a_name_that_leads_here(site: Site) -> None:
    """DNS rebinding: the browser sends the name of the page."""
    for host, status in (
        ("evil.example", 400),
        ("evil.example:80", 400),
        ("", 400),
        ("0.0.0.0:1", 400),
        ("localhost:1", 200),
        ("[::1]", 200),
    ):
        answered = await answer_to(site, f"GET /summaries/jobs HTTP/1.1\r\nHost: {host}\r\n\r\n")
        assert answered.startswith(f"HTTP/1.1 {status} ".encode()), host
        assert (b"expected localhost or an IP address" in answered) == (status == 400)
    answered = await answer_to(site, "GET /summaries/jobs HTTP/1.0\r\n\r\n")
    assert answered.startswith(b"HTTP/1.0 400 "), answered


@pytest.mark.long
async def test_a_chart_of_ten_thousand_curves_is_refused(serve: Serve) -> None:
    """S21."""
    site = await serve(ApiLimits())
    tags = [f"tag/{at}" for at in range(100)]
    jobs = [f"j.{at}" for at in range(100)]
    await site.rows.write(*(points(job, tag, [1.0]) for job in jobs for tag in tags))
    query = "&".join([*(f"job={job}" for job in jobs), *(f"tag={tag}" for tag in tags)])
    status, refused = await site.raw(f"/summaries/scalars?{query}")
    assert (status, refused["error"]["code"]) == (413, "too_many_values")
    ten = "&".join([*(f"job={job}" for job in jobs[:10]), *(f"tag={tag}" for tag in tags)])
    status, found = await site.raw(f"/summaries/scalars?{ten}")
    assert (status, len(found["curves"])) == (200, 1_000)
