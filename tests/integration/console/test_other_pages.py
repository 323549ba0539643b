"""The first page of a large fleet, and the page of a stream that was forgotten."""

import pytest

from tests.integration.console.given import browser_of, browser_of_log
from tests.integration.projections.harness import TOPICS
from tests.integration.projections.test_forgotten_streams import forgotten_log
from tests.unit.domain.given import STREAM
from tests.unit.projections.given import HistoryWriter
from trackside.console.pages.home import DEVICES
from trackside.console.web.page import PageNotFound
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


async def test_the_page_of_a_forgotten_stream_says_that_it_was_and_why(tables: str) -> None:
    records, _ = forgotten_log()
    said = r"was forgotten on .* \(search DONE, 2 trials ended\): a person has asked for it"
    browser = await browser_of(records, tables)
    with pytest.raises(PageNotFound, match=said):
        await browser.page(f"/experiments/{STREAM}")
