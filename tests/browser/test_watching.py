"""Open pages that follow what happens without a reload, also while processes of the stack are frozen."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, running_site, send

pytestmark = pytest.mark.timeout(900)


def test_a_search_is_followed_from_the_list_to_its_end_without_a_reload(site: Site, page: Page) -> None:
    page.goto(f"{site.address}/experiments?text={site.folder.path.name}")
    search = site.search("watched")
    link = page.get_by_role("link", name=search, exact=True)
    expect(link).to_be_visible()
    link.click()
    expect(page).to_have_url(site.page_of(search))
    expect(page.locator("h1 .badge")).to_have_text("RUNNING")
    expect(page.get_by_text("0/4")).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    reason = page.get_by_role("dialog").get_by_label("reason")
    reason.fill("I have seen")
    site.folder.release(search)
    expect(page.locator("h1 .badge")).to_have_text("DONE")
    expect(page.get_by_text("4/4")).to_be_visible()
    expect(page.locator("#history")).to_contain_text("best so far")


@pytest.fixture(scope="module")
def own_site(tmp_path_factory: pytest.TempPathFactory, leash: Path) -> Iterator[Site]:
    """Yields a stack whose processes and devices the tests of this module may stop."""
    with running_site(tmp_path_factory.mktemp("site"), "--leash", str(leash)) as running:
        yield running


def pid_of(site: Site, name: str) -> int:
    pid = site.folder.stack.pid(name)
    assert pid is not None
    return pid


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stops a process and its children for the block."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    for each in pids:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in pids:
            os.kill(each, signal.SIGCONT)


@pytest.mark.long
@pytest.mark.parametrize("process", ["dispatcher", "kafka", "postgres"])
def test_an_open_page_says_what_is_frozen_and_continues(own_site: Site, page: Page, process: str) -> None:
    search = own_site.search(f"frozen-{process}", trials=2)
    page.goto(own_site.page_of(search))
    with stopped(pid_of(own_site, process)):
        said = "The dispatcher" if process == "dispatcher" else process.capitalize()
        expect(page.locator("#status-bar")).to_contain_text(f"{said} does not answer")
    expect(page.locator("#status-bar")).to_be_empty()
    own_site.folder.release(search)
    expect(page.locator("h1 .badge")).to_have_text("DONE")


@pytest.mark.long
def test_a_killed_console_is_back_under_an_open_page(own_site: Site, page: Page) -> None:
    search = own_site.search("survivor")
    page.goto(own_site.page_of(search))
    expect(page.locator("h1 .badge")).to_have_text("RUNNING")
    os.kill(pid_of(own_site, "console"), signal.SIGKILL)
    own_site.folder.release(search)
    expect(page.locator("h1 .badge")).to_have_text("DONE")


@pytest.mark.long
def test_a_device_or_all_of_a_worker_are_drained_with_a_reason_and_used_again(
    own_site: Site, page: Page
) -> None:
    page.goto(f"{own_site.address}/fleet")
    rows = [page.get_by_role("row", name=f"worker/cpu-{number}") for number in range(2)]
    for label, state in (("Drain all devices", "drained"), ("Resume all devices", "free")):
        page.get_by_role("button", name="Drain or resume all devices of worker").click()
        send(page, label)
        for row in rows:
            expect(row.locator(".badge")).to_have_text(state)
    row = rows[1]
    row.get_by_role("button", name="Drain").click()
    page.get_by_role("dialog").get_by_label("reason").fill("a <b>fan</b> is loud")
    send(page, "Drain")
    expect(row.locator(".badge")).to_have_text("drained")
    expect(row).to_contain_text("a <b>fan</b> is loud")
    row.get_by_role("button", name="Resume").click()
    send(page, "Resume")
    expect(row.locator(".badge")).to_have_text("free")
