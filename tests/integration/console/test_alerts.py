"""The home page: alerts, as a real Prometheus has them from the rules of the installation, and devices."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.chaos.alerts.prometheus import needs_prometheus, prometheus
from tests.integration.console.given import Browser, browser_of_log
from tests.integration.projections.harness import TOPICS
from tests.unit.projections.given import HistoryWriter
from trackside.console.live.alerts import watch_alerts
from trackside.console.live.hub import Hub
from trackside.console.pages.home import DEVICES
from trackside.embedded.ports import free_ports
from trackside.eventlog.memory import MemoryLog

WITHIN_S = 60
MINUTE_S = 0.2
"""How long a minute of the rules is here, s."""


@asynccontextmanager
async def watching(hub: Hub, address: str) -> AsyncIterator[None]:
    """Reads the alerts of an address during the block."""
    watch = asyncio.create_task(watch_alerts(hub, address, every_s=0.2))
    try:
        yield
    finally:
        watch.cancel()


async def until_changed_to(hub: Hub, *, problem: bool = False, firing: bool = False) -> None:
    """Waits until the hub says of the alerts what is expected; pages are woken by each change."""
    async with asyncio.timeout(WITHIN_S), hub.subscribed() as subscription:
        while (bool(hub.alerts.problem), bool(hub.alerts.firing)) != (problem, firing):
            await subscription.changes(WITHIN_S)


@needs_prometheus
async def test_alerts_that_fire_are_shown_until_prometheus_is_away(tables: str, tmp_path: Path) -> None:
    hub = Hub(1)
    browser = Browser(tables, prometheus_url="http://127.0.0.1:9090", hub=hub)
    assert "Prometheus is being asked." in await browser.page("/")
    with prometheus(tmp_path / "prometheus", {}, MINUTE_S) as server:
        address = server.url
        async with watching(hub, address):
            await until_changed_to(hub, firing=True)
            page = await browser.page("/")
    assert ">TracksideServiceAbsent<" in page and "No dispatcher runs." in page
    assert ">page<" in page and "docs/operations.md#tracksideserviceabsent" in page
    async with watching(hub, address):
        await until_changed_to(hub, problem=True)
        page = await browser.page("/")
    assert f"Prometheus at {address} does not answer" in page and "TracksideServiceAbsent" not in page


async def test_an_address_that_is_no_prometheus_is_named() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    hub, port = Hub(1), free_ports(1)[0]
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    async with server, watching(hub, f"http://127.0.0.1:{port}"):
        await until_changed_to(hub, problem=True)
    assert "it answered 404 to /api/v1/alerts" in hub.alerts.problem


async def test_without_prometheus_the_page_says_which_services_do_not_answer(tables: str) -> None:
    hub = Hub(1)
    browser = Browser(tables, hub=hub)
    page = await browser.page("/")
    assert "All services answer." in page and "TRACKSIDE_CONSOLE_PROMETHEUS_URL" in page
    hub.state("scheduler", "The scheduler does not answer; <b>it</b> waits")
    page = await browser.page("/")
    assert "The scheduler does not answer; &lt;b&gt;it" in page and "All services answer." not in page


async def test_home_shows_the_first_devices_of_a_large_fleet_and_counts_all(tables: str) -> None:
    log = MemoryLog()
    history = HistoryWriter(log, TOPICS)
    await log.ensure(TOPICS.shared)
    await history.join("here", "one", devices=DEVICES + 7)
    await history.join("lost", "two", devices=5)
    await history.lose("lost", "two")
    page = await (await browser_of_log(log, tables)).page("/")
    assert f'0<span class="muted">/{DEVICES + 7}</span>' in page
    assert page.count('class="device"') == DEVICES and "7 more devices" in page
