"""A search that is watched in an open page, from its start to its end, without a reload."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, running_site

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def new_site(tmp_path: Path) -> Iterator[Site]:
    with running_site(tmp_path) as running:
        yield running


def test_an_empty_installation_is_told_how_to_begin_and_the_page_follows(new_site: Site, page: Page) -> None:
    site = new_site
    page.goto(site.address)
    expect(page.get_by_text("trackside submit search.yaml")).to_be_visible()
    site.hold()
    search = site.search("watched", trials=4)
    link = page.get_by_role("link", name="watched", exact=True)
    expect(link).to_be_visible()
    link.click()
    expect(page).to_have_url(f"{site.address}/experiments/{search}")
    expect(page.locator("h1 .badge")).to_have_text("RUNNING")
    expect(page.get_by_text("0/4")).to_be_visible()
    site.release()
    expect(page.locator("h1 .badge")).to_have_text("DONE")
    expect(page.get_by_text("4/4")).to_be_visible()
    expect(page.locator("#history")).to_contain_text("best so far")


def test_a_page_keeps_what_a_user_types_while_it_is_brought_up_to_date(site: Site, page: Page) -> None:
    site.hold()
    search = site.search("typed", trials=3)
    page.goto(f"{site.address}/experiments/{search}")
    page.get_by_role("button", name="Stop", exact=True).click()
    reason = page.get_by_role("dialog").get_by_label("reason")
    reason.fill("I have seen")
    site.release()
    expect(page.locator("h1 .badge")).to_have_text("DONE")


@contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("process", "said"),
    [
        ("dispatcher", "The dispatcher does not answer"),
        ("kafka", "Kafka does not answer"),
        ("postgres", "Postgres does not answer"),
    ],
)
def test_an_open_page_says_what_is_frozen_and_continues(
    site: Site, page: Page, process: str, said: str
) -> None:
    site.release()
    search = site.search(f"frozen-{process}", trials=2)
    page.goto(f"{site.address}/experiments/{search}")
    expect(page.locator("h1 .badge")).to_have_text("DONE")
    with stopped(site.pids(process)):
        expect(page.locator("#status-bar")).to_contain_text(said)
    expect(page.locator("#status-bar")).to_be_empty()
    again = site.search(f"again-{process}", trials=1)
    page.goto(f"{site.address}/experiments/{again}")
    expect(page.locator("h1 .badge")).to_have_text("DONE")


def test_a_killed_console_is_back_under_an_open_page(site: Site, page: Page) -> None:
    site.hold()
    search = site.search("survivor", trials=4)
    page.goto(f"{site.address}/experiments/{search}")
    expect(page.locator("h1 .badge")).to_have_text("RUNNING")
    os.kill(site.pid("console"), signal.SIGKILL)
    site.release()
    expect(page.locator("h1 .badge")).to_have_text("DONE")
