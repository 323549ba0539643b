"""Every page: state in its address, nothing outside of the screen, no rule of axe broken, in both themes."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser import showcase
from tests.browser.conftest import Site, violations, wait_for_charts
from tests.polling import poll_until_sync

pytestmark = pytest.mark.timeout(900)

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
    return showcase.fill(site.folder, ends=f"-{site.folder.path.name}", rounds=1)


@pytest.fixture(scope="module")
def evil(site: Site) -> str:
    """The page of a task whose publisher and code write markup wherever they can."""
    batch = site.folder.submit(
        "evil",
        "kind: tasks\nname: '<b>evil'\ngroups:\n  - tasks:\n      - task_type: evil\n"
        f"        parameters: {{text: '{EVIL}', '<b>evil': 1}}\n",
    )
    site.folder.run_ok("annotate", batch, "--note", EVIL)
    site.folder.run("watch", batch)
    return f"/tasks/{batch}/{batch}.1.1"


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


def test_no_page_is_wider_than_a_screen_or_runs_what_tasks_wrote(
    site: Site, page: Page, paths: list[str]
) -> None:
    wrong, failed = [], list[tuple[int, str]]()
    page.on("response", lambda told: failed.append((told.status, told.url)) if told.status >= 500 else None)
    for path in paths:
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(site.address + path)
        expect(page.locator("h1").first).to_be_attached()
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            wait_for_charts(page)
            if found := page.evaluate(WIDER_THAN_THE_SCREEN):
                wrong.append((path, width, found))
        assert page.evaluate("window.hacked") is None, path
        assert page.locator("img[src=x]").count() == 0, path
        assert page.locator("main b").count() == 0, path
    assert (wrong, [each for each in failed if each[0] != 503]) == ([], [])
    # Postgres may have been too busy once; a page that always takes too long is a failure.
    poll_until_sync(lambda: all(page.request.get(url).ok for _, url in failed))


@pytest.mark.long
def test_no_page_breaks_a_rule_of_axe_in_the_light_or_in_the_dark(
    site: Site, page: Page, paths: list[str]
) -> None:
    broken = []
    for path in paths:
        page.goto(site.address + path)
        expect(page.locator("main")).to_be_visible()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            broken += [(path, scheme, each) for each in violations(page)]
    assert broken == []


def test_the_list_is_filtered_as_a_user_types_and_the_address_has_it(
    site: Site, page: Page, shown: showcase.Showcase
) -> None:
    page.goto(f"{site.address}/experiments")
    page.locator("#text").fill(shown.pipeline)
    expect(page.locator("#found tbody tr")).to_have_count(2)
    expect(page).to_have_url(f"{site.address}/experiments?text={shown.pipeline}")
    page.reload()
    expect(page.locator("#text")).to_have_value(shown.pipeline)
    expect(page.locator("#found tbody tr")).to_have_count(2)
    page.locator("#text").fill("nothing-has-this-name")
    expect(page.get_by_text("No experiment is like that.")).to_be_visible()


def test_the_keyboard_is_enough(site: Site, page: Page, shown: showcase.Showcase) -> None:
    page.goto(site.address)
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_url(f"{site.address}/experiments")
    page.keyboard.press("/")
    page.keyboard.type(shown.pipeline)
    expect(page.locator("#found tbody tr")).to_have_count(2)


def test_a_markup_in_an_error_is_shown_as_text(site: Site, page: Page, evil: str) -> None:
    page.goto(site.address + evil)
    expect(page.get_by_text(EVIL).first).to_be_visible()
