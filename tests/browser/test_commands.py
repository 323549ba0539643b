"""Commands from pages: accepted, refused with the problem at its field, and idempotent."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site

pytestmark = pytest.mark.timeout(300)


def test_a_search_is_paused_resumed_and_stopped(site: Site, page: Page) -> None:
    site.hold()
    search = site.search("steered", trials=50)
    page.goto(f"{site.address}/experiments/{search}")
    for action, status in (("Pause", "PAUSED"), ("Resume", "RUNNING"), ("Stop", "STOPPED")):
        page.get_by_role("button", name=action, exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name=action, exact=True).click()
        expect(dialog.get_by_text("Accepted.")).to_be_visible()
        dialog.get_by_role("button", name="Close").click()
        expect(page.locator("h1 .badge")).to_have_text(status)
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)


def test_a_trial_is_added_by_a_form_made_from_the_space_and_a_bad_one_is_refused_at_its_field(
    site: Site, page: Page
) -> None:
    site.hold()
    search = site.search("added", trials=20)
    page.goto(f"{site.address}/experiments/{search}")
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
    dialog.get_by_role("button", name="Add trial").click()
    expect(dialog.get_by_text("Accepted.")).to_be_visible()
    site.release()
    expect(page.locator("h1 .badge")).to_have_text("DONE")
    trials = site.folder.json_output("show", search)["trials"]
    added = [each for each in trials if each["source"] != "algorithm"]
    assert [each["parameters"] for each in added] == [{"x": 0.5, "kind": "large"}]


def test_a_selection_of_searches_is_stopped_with_an_answer_for_each(site: Site, page: Page) -> None:
    site.hold()
    searches = [site.search(name, trials=50) for name in ("first-of-two", "second-of-two")]
    page.goto(f"{site.address}/experiments?text=of-two")
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
    page.goto(f"{site.address}/experiments?text=of-two")
    expect(page.get_by_text("No experiment is like that.")).to_be_visible()
    site.release()


def test_a_form_that_is_sent_twice_has_an_effect_once(site: Site, page: Page) -> None:
    site.hold()
    search = site.search("doubled", trials=20)
    page.goto(f"{site.address}/experiments/{search}")
    page.get_by_role("button", name="Add trial").click()
    form = page.get_by_role("dialog").locator("form")
    form.get_by_label("x").fill("0.25")
    body = form.evaluate("form => new URLSearchParams(new FormData(form)).toString()")
    sent = """async ([path, body]) => (await Promise.all([1, 2].map(() => fetch(path, {
        method: "POST", body, headers: {"Content-Type": "application/x-www-form-urlencoded"}
    })))).map(each => each.status)"""
    assert page.evaluate(sent, [f"/commands/{search}", body]) == [200, 200]
    site.release()
    expect(page.locator("h1 .badge")).to_have_text("DONE")
    shown = site.folder.json_output("show", search)
    assert [each["command_type"] for each in shown["commands"]].count("trackside.add-trial.v1") == 1
    assert sum(each["source"] != "algorithm" for each in shown["trials"]) == 1


def test_all_devices_of_a_worker_are_drained_and_resumed_at_once(site: Site, page: Page) -> None:
    page.goto(f"{site.address}/fleet")
    rows = [page.get_by_role("row", name=f"worker/cpu-{number}") for number in range(2)]
    for label, state in (("Drain all devices", "drained"), ("Resume all devices", "free")):
        page.get_by_role("button", name="Drain or resume all devices of worker").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name=label).click()
        expect(dialog.get_by_text("Accepted.")).to_be_visible()
        dialog.get_by_role("button", name="Close").first.click()
        for row in rows:
            expect(row.locator(".badge")).to_have_text(state)


def test_a_device_is_drained_with_a_reason_and_used_again(site: Site, page: Page) -> None:
    site.release()
    page.goto(f"{site.address}/fleet")
    row = page.get_by_role("row", name="worker/cpu-1")
    expect(row.locator(".badge")).to_have_text("free")
    row.get_by_role("button", name="Drain").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("reason").fill("a <b>fan</b> is loud")
    dialog.get_by_role("button", name="Drain").click()
    expect(dialog.get_by_text("Accepted.")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    expect(row.locator(".badge")).to_have_text("drained")
    expect(row).to_contain_text("a <b>fan</b> is loud")
    row.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("dialog").get_by_text("Accepted.")).to_be_visible()
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(row.locator(".badge")).to_have_text("free")
