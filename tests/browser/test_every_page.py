"""Every page: state in its address, nothing outside of the screen, no rule of axe broken, in both themes."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Site

pytestmark = pytest.mark.timeout(600)

EVIL = "<img src=x onerror=window.hacked=1>"
WIDTHS = (1280, 390)


@pytest.fixture(scope="module")
def paths(site: Site) -> list[str]:
    """Addresses of all views, of streams whose publisher and tasks write markup wherever they can."""
    site.release()
    search = site.search("every", trials=5)
    site.folder.run_ok("watch", search)
    batch = site.submit(
        "kind: tasks\ngroups:\n  - name: evil\n    tasks:\n      - task_type: broken\n"
        f"        parameters: {{text: '{EVIL}'}}\n",
        "evil",
    )
    site.folder.run_ok("annotate", batch, "--note", EVIL)
    site.folder.run("watch", batch)
    shown = site.folder.json_output("show", batch)
    task = shown["tasks"][0]["task_id"]
    base = f"/experiments/{search}"
    return [
        "/",
        "/experiments",
        "/experiments?text=every&status=DONE&sort=name&order=asc",
        base,
        f"{base}/trials",
        f"{base}/trials?sort=value&order=asc&status=SUCCEEDED",
        f"{base}/parameters",
        f"{base}/events",
        f"{base}/past",
        f"{base}/past?at=now",
        f"/experiments/{batch}",
        f"/experiments/{batch}/events",
        f"/tasks/{search}/{search}.0",
        f"/tasks/{batch}/{task}",
        f"/tasks/{batch}/{task}/output",
        f"{base}/summaries",
        f"{base}/whatif",
        "/summaries",
        f"/compare?id={search}&id={batch}",
        "/compare?id=one",
        "/fleet",
        "/fleet?hours=24",
        "/fleet/task-types",
        "/log",
        "/experiments/none-of-this-name",
        "/nowhere",
    ]


def test_no_page_is_wider_than_the_screen_or_runs_what_tasks_wrote(
    site: Site, browser: Browser, paths: list[str]
) -> None:
    for width in WIDTHS:
        context = browser.new_context(viewport={"width": width, "height": 900})
        page = context.new_page()
        for path in paths:
            page.goto(site.address + path)
            expect(page.locator("h1").first).to_be_attached()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            assert page.evaluate("window.hacked") is None, path
            assert page.locator("img[src=x]").count() == 0, path
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_breaks_a_rule_of_axe(site: Site, browser: Browser, paths: list[str], scheme: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    broken = []
    for path in paths:
        page.goto(site.address + path)
        expect(page.locator("main")).to_be_visible()
        found = Axe().run(page)
        broken += [
            (path, each["id"], [node["html"][:200] for node in each["nodes"][:3]])
            for each in found.response["violations"]
        ]
    context.close()
    assert broken == []


def test_the_list_is_filtered_as_a_user_types_and_the_address_has_it(
    site: Site, page: Page, paths: list[str]
) -> None:
    page.goto(f"{site.address}/experiments")
    page.locator("#text").fill("every")
    expect(page.locator("#found tbody tr")).to_have_count(1)
    expect(page).to_have_url(f"{site.address}/experiments?text=every")
    page.reload()
    expect(page.locator("#text")).to_have_value("every")
    expect(page.locator("#found tbody tr")).to_have_count(1)
    page.locator("#text").fill("nothing-has-this-name")
    expect(page.get_by_text("No experiment is like that.")).to_be_visible()


def test_the_keyboard_is_enough(site: Site, page: Page, paths: list[str]) -> None:
    page.goto(site.address)
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page).to_have_url(f"{site.address}/experiments")
    page.keyboard.press("/")
    page.keyboard.type("every")
    expect(page.locator("#found tbody tr")).to_have_count(1)


def test_a_markup_in_an_error_is_shown_as_text(site: Site, page: Page, paths: list[str]) -> None:
    task = next(path for path in paths if path.startswith("/tasks/") and not path.endswith(".0"))
    page.goto(site.address + task)
    expect(page.get_by_text("<img src=x onerror=window.hacked=1>").first).to_be_visible()
