"""Runs of pipelines in a browser: gates with their forms, steps, failed runs that are retried."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, send, violations

pytestmark = pytest.mark.timeout(900)

PIPELINE = """
kind: pipeline
name: checked
parameters:
  x: {type: number, default: 0.5}
steps:
  - {name: first, task_type: parabola, parameters: {x: "${pipeline.x}"}}
  - name: approval
    needs: [first]
    gate:
      message: "Is it <b>good</b>?"
      form:
        score: {type: integer, minimum: 0, maximum: 10}
  - {name: last, task_type: parabola, needs: [approval], parameters: {x: 0.25}}
"""


@pytest.mark.long
def test_a_gate_is_approved_by_its_form_and_the_run_goes_to_its_end(site: Site, page: Page) -> None:
    run = site.folder.submit("checked", PIPELINE)
    page.goto(site.page_of(run))
    expect(page.get_by_text("Is it <b>good</b>?").first).to_be_visible()
    gate = page.locator("form", has=page.get_by_label("score")).first
    if not gate.is_visible():
        page.get_by_role("button", name="Approve").first.click()
    score = gate.get_by_label("score")
    score.fill("11")
    assert score.evaluate("each => each.validity.rangeOverflow"), "the browser knows the limits of the form"
    score.evaluate("each => each.removeAttribute('max')")
    gate.get_by_role("button", name="Approve").click()
    expect(page.locator("[data-path*='score']", has_text="10").first).to_be_visible()
    gate.get_by_label("score").fill("7")
    gate.get_by_role("button", name="Approve").click()
    expect(page.locator("h1 .badge")).to_have_text("SUCCEEDED")
    assert "local" in str(site.show(run)), "the session says who has approved"
    for path in ("", "/steps/first", "/steps/approval"):
        page.goto(site.page_of(run) + path)
        expect(page.locator("h1").first).to_be_visible()
        assert violations(page) == [], path


@pytest.mark.long
def test_a_run_that_failed_is_retried_from_its_page(site: Site, page: Page) -> None:
    spec = "kind: pipeline\nname: failing\nsteps:\n  - {name: only, task_type: broken}\n"
    run = site.folder.submit("failing", spec)
    page.goto(site.page_of(run))
    expect(page.locator("h1 .badge")).to_have_text("FAILED")
    page.get_by_role("button", name="Retry failed steps").first.click()
    send(page, "Retry failed steps")
    page.goto(f"{site.page_of(run)}/events?view=list")
    expect(page.get_by_role("cell", name="RunRevived")).to_be_attached()


@pytest.mark.long
def test_a_defined_pipeline_is_run_by_a_form_with_its_parameters(site: Site, page: Page) -> None:
    spec = "kind: pipeline\nname: defined\nparameters:\n  x: {type: number, default: 0.5}\nsteps:\n"
    spec += '  - {name: only, task_type: parabola, parameters: {x: "${pipeline.x}"}}\n'
    (site.folder.path / "defined.yaml").write_text(spec)
    pipeline = site.folder.id("defined")
    site.folder.run_ok("pipelines", "define", pipeline, "defined.yaml")
    page.goto(site.page_of(pipeline))
    page.get_by_role("button", name="Run now").first.click()
    page.get_by_role("dialog").get_by_label("x").fill("0.75")
    send(page, "Run now")
    expect(page.get_by_text("SUCCEEDED").first).to_be_visible()
    assert violations(page) == []
