"""The first page of a large fleet."""

from tests.integration.console.given import browser_of_log
from tests.integration.projections.harness import TOPICS
from tests.unit.projections.given import HistoryWriter
from trackside.console.pages.home import DEVICES
from trackside.eventlog.memory import MemoryLog


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
