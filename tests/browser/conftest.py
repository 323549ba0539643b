"""The console of the open stack that all tests share, and a real browser.

Browsers are Debian's or Playwright's own; without one these tests are skipped, and the run says so.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.e2e.shared_stack import StackFolder, folder_below, open_stack, start
from tests.polling import poll_until_sync
from tests.service_processes import service_process
from trackside.embedded import stack
from trackside.embedded.ports import free_ports

SEARCH = """
kind: search
name: {name}
task_type: gated
direction: minimize
max_trials: {trials}
concurrency: 2
seed: 7
tuner: {{name: random}}
space:
  x: {{type: uniform, low: -1, high: 1}}
  kind: {{type: choice, values: [small, large]}}
"""
MAX_HEIGHT = 6000
CHARTS_ARE_SHOWN = """() => [...document.querySelectorAll("figure.chart")].every(
    (each) => each.querySelector(".chart-body canvas, .chart-body svg, .chart-message, [role=img]"))
"""

expect.set_options(timeout=60_000)


@dataclass(frozen=True)
class Site:
    """A test's folder on a stack, and the address of the console there."""

    folder: StackFolder
    address: str

    @classmethod
    def of(cls, folder: StackFolder) -> "Site":
        """Returns the console of the stack that a folder is on."""
        return cls(folder, f"http://127.0.0.1:{folder.stack.status.processes[stack.CONSOLE].port}")

    def page_of(self, stream: str) -> str:
        """Returns the address of the page of an experiment."""
        return f"{self.address}/experiments/{stream}"

    def show(self, stream: str) -> Any:
        """Returns what `trackside show` prints about an experiment."""
        return self.folder.json_output("show", stream)

    def search(self, name: str, trials: int = 4) -> str:
        """Submits a search over gated tasks; returns its id."""
        return self.folder.submit(name, SEARCH.format(name=name, trials=trials))


@contextmanager
def running_site(home: Path, *options: str) -> Iterator[Site]:
    """Starts a stack in a folder for the block."""
    user = start(home, *options)
    try:
        with folder_below(home) as folder:
            yield Site.of(folder)
    finally:
        user.run("down")


def wait_for_charts(page: Page) -> None:
    """Makes the window as high as the page, and waits until every chart shows its values or says why not."""
    width = (page.viewport_size or {"width": 1280})["width"]
    height = min(page.evaluate("document.documentElement.scrollHeight"), MAX_HEIGHT)
    page.set_viewport_size({"width": width, "height": height})
    poll_until_sync(lambda: page.evaluate(CHARTS_ARE_SHOWN), within_s=60)


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """Returns the rules of axe that a page breaks, each with the markup of some places."""
    found = Axe().run(page).response["violations"]
    return [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in found]


def send(page: Page, action: str) -> None:
    """Sends the form of the open dialog, which is accepted, and closes the dialog."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name=action, exact=True).click()
    expect(dialog.get_by_text("Accepted.")).to_be_visible()
    dialog.get_by_role("button", name="Close").first.click()


@contextmanager
def second_console(site: Site, folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Runs another console of a stack, with settings without their prefix, and yields its address."""
    found = site.folder.stack
    [port] = free_ports(1)
    variables = {
        "TRACKSIDE_KAFKA_BOOTSTRAP": found.bootstrap_servers,
        "TRACKSIDE_POSTGRES_DSN": found.postgres_dsn,
        "TRACKSIDE_CONSOLE_PORT": str(port),
        **{f"TRACKSIDE_CONSOLE_{name}": value for name, value in settings.items()},
    }
    address = f"http://127.0.0.1:{port}"
    with service_process("console", variables, folder):
        poll_until_sync(lambda: _answers(address))
        yield address


def _answers(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/login").status_code in (200, 303)
    except httpx2.HTTPError:
        return False


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Yields a folder of the module on the open stack of the run, and the console there."""
    with folder_below(open_stack()) as folder:
        yield Site.of(folder)


def started_chromium(playwright: Playwright) -> Browser | None:
    """Returns a browser, or None if there is no program of one."""
    named = os.environ.get("TRACKSIDE_TEST_CHROMIUM")
    program = named or shutil.which("chromium") or shutil.which("chromium-browser")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=program, args=arguments) if program else None


@pytest.fixture(scope="module")  # while Playwright's event loop runs, no other test of the process has one
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = started_chromium(playwright)
        if started is None:
            pytest.skip(
                "there is no Chromium: `apt install chromium`, or name one in TRACKSIDE_TEST_CHROMIUM"
            )
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    made.set_default_timeout(30_000)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page whose errors fail the test."""
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda said: errors.append(said.text) if _is_violation(said.text) else None)
    yield opened
    assert errors == []


def _is_violation(text: str) -> bool:
    return "Content Security Policy" in text or "Uncaught" in text
