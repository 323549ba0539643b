"""Every page: state in its address, nothing outside of the screen, no rule of axe broken, in both themes."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser import showcase
from tests.browser.conftest import Site, wait_for_charts

pytestmark = pytest.mark.timeout(600)

EVIL = "<img src=x onerror=window.hacked=1>"
WIDER_THAN_THE_SCREEN = """() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    return [...document.querySelectorAll("main *")]
        .filter((each) => each.getBoundingClientRect().right > width + 1)
        .map((each) => each.outerHTML.slice(0, 150))
        .slice(0, 3);
}"""


@pytest.fixture(scope="module")
def shown(site: Site) -> showcase.Showcase:
    site.release()
    return showcase.fill(site.folder)


@pytest.fixture(scope="module")
def evil(site: Site) -> str:
    """The page of a task whose publisher and code write markup wherever they can."""
    site.release()
    batch = site.submit(
        "kind: tasks\nname: '<b>evil'\ngroups:\n  - tasks:\n      - task_type: broken\n"
        f"        parameters: {{text: '{EVIL}', '<b>evil': 1}}\n",
        "evil",
    )
    site.folder.run_ok("annotate", batch, "--note", EVIL)
    site.folder.run("watch", batch)
    task = site.folder.json_output("show", batch)["tasks"][0]["task_id"]
    return f"/tasks/{batch}/{task}"


@pytest.fixture(scope="module")
def paths(shown: showcase.Showcase, evil: str) -> list[str]:
    """Addresses of all views, and of pages that say what is wrong."""
    batch = f"/experiments/{evil.split('/')[2]}"
    return [
        *shown.views().values(),
        "/experiments?text=digits&status=DONE&sort=name&order=asc",
        "/experiments?text=nothing-has-this-name",
        batch,
        f"{batch}/events",
        f"{batch}/past?at=now",
        evil,
        f"{evil}/output",
        "/compare?id=one",
        "/compare",
        "/experiments/none-of-this-name",
        "/tasks/none/of-this-name",
        f"/experiments/{shown.run}/steps/none",
        f"/experiments/{shown.job}/rounds/99",
        f"/experiments/{shown.model}/versions/99",
        "/nowhere",
    ]


def test_every_view_of_the_console_is_among_those_that_are_tested(paths: list[str]) -> None:
    assert showcase.unvisited(paths) == []


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_screen_or_runs_what_tasks_wrote(
    site: Site, browser: Browser, paths: list[str], width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    wrong = []
    for path in paths:
        page.goto(site.address + path)
        expect(page.locator("h1").first).to_be_attached()
        wait_for_charts(page)
        wide = page.evaluate(WIDER_THAN_THE_SCREEN)
        if wide:
            wrong.append((path, wide))
        assert page.evaluate("window.hacked") is None, path
        assert page.locator("img[src=x]").count() == 0, path
        assert page.locator("main b").count() == 0, path
    context.close()
    assert wrong == []


def test_no_page_breaks_a_rule_of_axe_in_the_light_or_in_the_dark(
    site: Site, browser: Browser, paths: list[str]
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    broken = []
    for path in paths:
        page.goto(site.address + path)
        expect(page.locator("main")).to_be_visible()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page)
            broken += [
                (path, scheme, each["id"], [node["html"][:200] for node in each["nodes"][:3]])
                for each in found.response["violations"]
            ]
    context.close()
    assert broken == []


def test_the_list_is_filtered_as_a_user_types_and_the_address_has_it(
    site: Site, page: Page, paths: list[str]
) -> None:
    page.goto(f"{site.address}/experiments")
    page.locator("#text").fill("nightly")
    expect(page.locator("#found tbody tr")).to_have_count(2)
    expect(page).to_have_url(f"{site.address}/experiments?text=nightly")
    page.reload()
    expect(page.locator("#text")).to_have_value("nightly")
    expect(page.locator("#found tbody tr")).to_have_count(2)
    page.locator("#text").fill("nothing-has-this-name")
    expect(page.get_by_text("No experiment is like that.")).to_be_visible()


def test_the_keyboard_is_enough(site: Site, page: Page, paths: list[str]) -> None:
    page.goto(site.address)
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page).to_have_url(f"{site.address}/experiments")
    page.keyboard.press("/")
    page.keyboard.type("nightly")
    expect(page.locator("#found tbody tr")).to_have_count(2)


def test_a_markup_in_an_error_is_shown_as_text(site: Site, page: Page, evil: str) -> None:
    page.goto(site.address + evil)
    expect(page.get_by_text(EVIL).first).to_be_visible()
