"""The pages of events mark what had no effect, as a fold of the stream says it."""

from collections.abc import Iterator

import pytest

from tests.integration.console.given import Browser, browsing
from tests.stack import Servers
from tests.unit.domain.given import STREAM, assigned, begun, ended, over, report
from tests.unit.replay.given import after
from tests.unit.replay.test_why import waiting_trial
from trackside.domain.outcome import Outcome

TOLD = after(waiting_trial(), assigned(), assigned(), begun(), ended(), report(3, 0.5), over(0))
MARK = 'title="This event had no effect">'


@pytest.fixture(scope="module")
def browser(stack: Servers) -> Iterator[Browser]:
    with browsing(stack, TOLD.records) as found:
        yield found


async def test_what_had_no_effect_is_marked_in_the_list_and_in_the_tree(browser: Browser) -> None:
    expected = {
        record.offset: outcome.value
        for record, outcome in zip(TOLD.records, TOLD.outcomes, strict=True)
        if outcome is not Outcome.APPLIED
    }
    assert sorted(expected.values()) == ["duplicate", "overtaken"]
    listed = await browser.page(f"/experiments/{STREAM}/events?view=list")
    marked = {
        int(line.split("event-")[1].split('"')[0]): line.split(MARK)[1].split("<")[0]
        for line in listed.split("<tr ")
        if MARK in line
    }
    assert marked == expected
    assert (await browser.page(f"/experiments/{STREAM}/events")).count(MARK) == len(expected)
    (first, *_) = expected
    assert MARK in await browser.page(f"/experiments/{STREAM}/events?event={first}")
    assert "is not known yet" not in listed
