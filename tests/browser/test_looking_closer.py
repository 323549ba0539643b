"""Output that is followed, summaries, comparisons and what-ifs, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site

pytestmark = pytest.mark.timeout(300)


def talking(site: Site, name: str) -> str:
    """Submits a task that talks, and returns the path of its page."""
    batch = site.submit("kind: tasks\ngroups: [{tasks: [{task_type: talking}]}]\n", name)
    return f"/tasks/{batch}/{batch}.1.1"


def test_output_is_followed_until_its_task_ends(site: Site, page: Page) -> None:
    site.hold()
    path = talking(site, "followed")
    page.goto(f"{site.address}{path}/output")
    lines = page.get_by_role("log")
    expect(lines).to_contain_text("before 2")
    expect(lines).to_contain_text("<img src=x")
    expect(lines).not_to_contain_text("after the wait")
    site.release()
    expect(lines).to_contain_text("after the wait")
    expect(lines).to_contain_text("It has ended.")
    assert page.evaluate("window.hacked") is None


def test_output_is_searched_and_downloaded(site: Site, page: Page) -> None:
    site.release()
    path = talking(site, "searched")
    site.folder.run_ok("watch", path.split("/")[2])
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


def test_images_are_shown_at_the_step_of_the_slider(site: Site, page: Page) -> None:
    site.release()
    path = talking(site, "pictured")
    batch = path.split("/")[2]
    site.folder.run_ok("watch", batch)
    page.goto(f"{site.address}/experiments/{batch}/summaries?kind=image")
    picture = page.get_by_role("img", name=re.compile("<b>picture"))
    expect(picture).to_have_attribute("src", re.compile("step=2&"))
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 8
    page.get_by_label("Up to step").fill("1")
    expect(picture).to_have_attribute("src", re.compile("step=1&"))
    expect(page).to_have_url(re.compile("step=1"))
    page.get_by_role("link", name="Histograms").click()
    expect(page.locator("figure canvas").first).to_be_visible()


def test_two_searches_are_compared_and_one_is_re_evaluated(site: Site, page: Page) -> None:
    site.release()
    first, second = site.search("one", trials=4), site.search("other", trials=5)
    for each in (first, second):
        site.folder.run_ok("watch", each)
    page.goto(f"{site.address}/compare?id={first}&id={second}")
    expect(page.locator("#best")).to_contain_text(first)
    expect(page.get_by_role("region", name="Parameters that differ")).to_contain_text("max_trials")
    page.goto(f"{site.address}/compare?id={first}")
    expect(page.get_by_role("alert")).to_contain_text("2 to 20 different ids")
    page.goto(f"{site.address}/experiments/{first}/whatif")
    page.get_by_label("Workers").fill("1, 2")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("region", name="Scenarios")).to_contain_text("2 x 1 devices")
    expect(page.locator("#whatif-makespan_s canvas").first).to_be_visible()
    page.get_by_label("Workers").fill("none")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Workers: 'none' is not a number")
