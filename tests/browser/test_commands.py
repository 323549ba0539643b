"""Commands from pages: accepted, refused with the problem at its field, and idempotent."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, send

pytestmark = pytest.mark.timeout(900)


def test_a_search_is_paused_resumed_and_stopped(site: Site, page: Page) -> None:
    page.goto(site.page_of(site.search("steered", trials=50)))
    for action, status in (("Pause", "PAUSED"), ("Resume", "RUNNING"), ("Stop", "STOPPED")):
        page.get_by_role("button", name=action, exact=True).click()
        send(page, action)
        expect(page.locator("h1 .badge")).to_have_text(status)
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)


@pytest.mark.long
def test_a_form_made_from_the_space_adds_a_trial_once_and_a_bad_one_is_refused_at_its_field(
    site: Site, page: Page
) -> None:
    search = site.search("added", trials=10)
    page.goto(site.page_of(search))
    page.get_by_role("button", name="Add trial").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("x").fill("17")
    dialog.get_by_role("button", name="Add trial").click()
    problem = dialog.locator("[data-path='$.parameters.x']", has_text="17")
    expect(page.locator("tr", has_text="refused")).to_have_count(1)  # the page was changed since the answer
    expect(problem.first).to_be_visible()
    expect(dialog.get_by_label("x")).to_have_attribute("aria-invalid", "true")
    dialog.get_by_label("x").fill("0.5")
    dialog.get_by_label("kind").select_option("large")
    form = dialog.locator("form")
    body = form.evaluate("form => new URLSearchParams(new FormData(form)).toString()")
    sent = """async ([path, body]) => (await Promise.all([1, 2].map(() => fetch(path, {
        method: "POST", body, headers: {"Content-Type": "application/x-www-form-urlencoded"}
    })))).map(each => each.status)"""
    assert page.evaluate(sent, [f"/commands/{search}", body]) == [200, 200]
    send(page, "Add trial")
    site.folder.release(search)
    expect(page.locator("h1 .badge")).to_have_text("DONE")
    shown = site.show(search)
    added = [each for each in shown["trials"] if each["source"] != "algorithm"]
    assert [each["parameters"] for each in added] == [{"x": 0.5, "kind": "large"}]
    commands = [each for each in shown["commands"] if each["command_type"] == "trackside.add-trial.v1"]
    assert len(commands) == 2, "the refused one, and the one that was sent three times"


@pytest.mark.long
def test_a_selection_of_searches_is_stopped_with_an_answer_for_each(site: Site, page: Page) -> None:
    searches = [site.search(name, trials=50) for name in ("first-of-two", "second-of-two")]
    both = f"{site.address}/experiments?text={site.folder.id('of-two')}"
    page.goto(both)
    for search in searches:
        page.get_by_label(f"select {search}").check()
    page.get_by_role("link", name="Stop or archive").click()
    page.get_by_role("button", name="Stop 2").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop 2").click()
    for search in searches:
        row = page.get_by_role("row", name=search)
        expect(row.get_by_text("Accepted.")).to_be_visible()
        expect(row.locator(".badge")).to_have_text("STOPPED")
    expect(page.get_by_role("button", name="Stop 0")).to_be_disabled()
    page.get_by_role("button", name="Archive 2").click()
    page.get_by_role("dialog").get_by_role("button", name="Archive 2").click()
    for search in searches:
        expect(page.get_by_role("row", name=search)).to_contain_text("archived")
    page.goto(both)
    expect(page.get_by_text("No experiment is like that.")).to_be_visible()
