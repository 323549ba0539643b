"""The page of a stream that was forgotten, from the rows that a log leads to without its key."""

import pytest

from tests.integration.console.given import browser_of
from tests.integration.projections.test_forgotten_streams import forgotten_log
from tests.unit.domain.given import STREAM
from trackside.console.web.page import PageNotFound


async def test_the_page_of_a_forgotten_stream_says_that_it_was_and_why(tables: str) -> None:
    records, _ = forgotten_log()
    said = r"was forgotten on .* \(search DONE, 2 trials ended\): a person has asked for it"
    browser = await browser_of(records, tables)
    with pytest.raises(PageNotFound, match=said):
        await browser.page(f"/experiments/{STREAM}")
