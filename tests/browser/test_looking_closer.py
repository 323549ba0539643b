"""Output that is followed, summaries and what-ifs, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site

pytestmark = pytest.mark.timeout(900)


def talking(site: Site, name: str) -> str:
    """Submits a task that talks, and returns the path of its page."""
    batch = site.folder.submit(name, "kind: tasks\ngroups: [{tasks: [{task_type: talking}]}]\n")
    return f"/tasks/{batch}/{batch}.1.1"


def talked(site: Site, name: str) -> str:
    """Lets a task talk to its end, and returns the path of its page."""
    site.folder.release(site.folder.id(name))
    path = talking(site, name)
    site.folder.run_ok("watch", path.split("/")[2])
    return path


@pytest.mark.long
def test_output_is_followed_until_its_task_ends(site: Site, page: Page) -> None:
    path = talking(site, "followed")
    page.goto(f"{site.address}{path}/output")
    lines = page.get_by_role("log")
    expect(lines).to_contain_text("before 2")
    expect(lines).to_contain_text("<img src=x")
    expect(lines).not_to_contain_text("after the wait")
    site.folder.release(path.split("/")[2])
    expect(lines).to_contain_text("after the wait")
    expect(lines).to_contain_text("It has ended.")
    assert page.evaluate("window.hacked") is None


@pytest.mark.long
def test_output_is_searched_and_downloaded(site: Site, page: Page) -> None:
    path = talked(site, "searched")
    page.goto(f"{site.address}{path}/output")
    expect(page.get_by_role("log")).to_contain_text("after the wait")
    page.get_by_label("Search lines").fill("BEFORE 1")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("log")).to_have_text(re.compile(r"^\s*before 1\s*$"))
    page.get_by_label("Search lines").fill("")
    page.get_by_role("button", name="Show", exact=True).click()
    with page.expect_download() as started:
        page.get_by_role("link", name="Download").click()
    text = started.value.path().read_text()
    assert [line for line in text.splitlines() if line.startswith("before")] == [
        "before 0",
        "before 1",
        "before 2",
    ]


@pytest.mark.long
def test_images_are_shown_at_the_step_of_the_slider(site: Site, page: Page) -> None:
    batch = talked(site, "pictured").split("/")[2]
    page.goto(f"{site.page_of(batch)}/summaries?kind=image")
    picture = page.get_by_role("img", name=re.compile("<b>picture"))
    expect(picture).to_have_attribute("src", re.compile("step=2&"))
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 8
    page.get_by_label("Up to step").fill("1")
    expect(picture).to_have_attribute("src", re.compile("step=1&"))
    expect(page).to_have_url(re.compile("step=1"))
    page.get_by_role("link", name="Histograms").click()
    expect(page.locator("figure canvas").first).to_be_visible()


@pytest.mark.long
def test_a_search_is_evaluated_again_with_other_workers(site: Site, page: Page) -> None:
    search = site.search("evaluated")
    site.folder.release(search)
    site.folder.run_ok("watch", search)
    page.goto(f"{site.page_of(search)}/whatif")
    page.get_by_label("Workers").fill("1, 2")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("region", name="Scenarios")).to_contain_text("2 x 1 devices")
    expect(page.locator("#whatif-makespan_s canvas").first).to_be_visible()
    page.get_by_label("Workers").fill("none")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Workers: 'none' is not a number")
