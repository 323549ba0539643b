"""Takes the pictures of docs/console.md: `python -m tests.browser.pictures`.

A stack of its own runs experiments of each kind; then each view is opened at both widths.
"""

import argparse
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser import showcase
from tests.browser.conftest import running_site, started_chromium, wait_for_charts

OUT = Path(__file__).parents[2] / "docs" / "pictures"
WIDE, NARROW = (1280, 1600), (390, 1500)
"""Sizes of a picture in pixels: its width, and the height that it is cut at."""
COLOURS = 256
VIEWS = (
    *("home", "experiments", "search", "trials", "parameters", "trial", "output", "events", "past"),
    *("compare", "batch", "summaries", "run", "step", "pipeline", "rounds", "round", "bill", "model"),
    *("dataset", "fleet", "log"),
)
DARK = ("search", "run", "parameters", "fleet")
"""Views whose narrow picture is in the dark."""


def main() -> None:
    """Takes all pictures, or those of the views that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("views", nargs="*", help=f"some of {', '.join(VIEWS)}, whatif; all by default")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the pictures")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = started_chromium(playwright)
        if browser is None:
            parser.error("there is no Chromium: apt install chromium")
        with tempfile.TemporaryDirectory() as folder, running_site(Path(folder)) as site:
            addresses = showcase.fill(site.folder).views()
            for view in asked.views or [*VIEWS, "whatif"]:
                take_pictures(browser, view, site.address + addresses[view], asked.out)


def take_pictures(browser: Browser, view: str, address: str, out: Path) -> None:
    """Takes the wide and the narrow picture of a view."""
    for suffix, (width, height) in (("", WIDE), ("-narrow", NARROW)):
        dark = bool(suffix) and view in DARK
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        page = context.new_page()
        page.goto(address)
        _prepare(page, view)
        wait_for_charts(page)
        shown = page.screenshot(animations="disabled")
        _save(shown, height, out / f"console-{view}{suffix}.png")
        context.close()


def _prepare(page: Page, view: str) -> None:
    """Brings a page into the state that its picture shows."""
    if view == "whatif":
        page.get_by_label("Workers").fill("1, 2, 4")
        page.get_by_role("button", name="Compare", exact=True).click()
        page.locator("#whatif-makespan_s").wait_for()
    if view == "output":
        page.get_by_text("It has ended.").or_(page.get_by_text("step 5")).first.wait_for()


def _save(picture: bytes, height: int, path: Path) -> None:
    """Writes a picture with few colours, which makes it a quarter as large."""
    found = Image.open(BytesIO(picture)).convert("RGB")
    cut = found.crop((0, 0, found.width, min(found.height, height)))
    cut.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
