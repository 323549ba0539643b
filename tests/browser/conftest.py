"""One stack for all tests of pages, with tasks that a test releases, and a real browser.

Browsers are Debian's or Playwright's own; without one these tests are skipped, and the run says so.
"""

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests.browser import showcase
from tests.e2e.harness import UserFolder
from tests.polling import poll_until_sync
from tests.service_processes import service_process
from trackside.embedded import stack

TASKS = '''
import time
from pathlib import Path

from trackside.sdk import Task, trial


class Gated(Task):
    """Reports some values and ends once its file is there."""

    def train(self, device):
        asked = trial.parameters()
        for step in range(5):
            trial.report(asked["x"] ** 2 + 1 / (step + 1), step=step)
        while not (Path(__file__).parent / "released").exists():
            time.sleep(0.02)
        trial.result(asked["x"] ** 2)
        return {"x": asked["x"]}


class Broken(Task):
    """Writes markup wherever a task can, and fails with it."""

    def train(self, device):
        import numpy as np

        from trackside.sdk import SummaryWriter

        evil = "<img src=x onerror=window.hacked=1>"
        print(f"<b>printed</b> {evil}")
        trial.report({"default": 1.0, f"<b>{evil}": 2.0}, step=0)
        with SummaryWriter() as writer:
            writer.add_scalar(f"<b>scalar {evil}", 1.0, 0)
            writer.add_histogram(f"<b>histogram {evil}", np.arange(10), 0)
            writer.add_image(f"<b>image {evil}", np.full((8, 8), 0.5), 0, dataformats="HW")
            writer.add_text(f"<b>text {evil}", f"<b>{evil}", 0)
            writer.add_hparams({f"<b>{evil}": evil}, {f"<b>metric {evil}": 1.0})
        trial.save("saved", b"bytes", kind="file", metadata={f"<b>{evil}": evil})
        raise ValueError(f"<b>{evil}")


class Talking(Task):
    """Records summaries, and prints before and after its file is there."""

    def train(self, device):
        import numpy as np

        from trackside.sdk import SummaryWriter

        with SummaryWriter() as writer:
            for step in range(3):
                writer.add_scalar("loss", 1 / (step + 1), step)
                writer.add_image("<b>picture", np.full((8, 8), step / 2), step, dataformats="HW")
                writer.add_histogram("weights", np.arange(10) * step, step)
        print("<img src=x onerror=window.hacked=1>", flush=True)
        for number in range(3):
            print(f"before {number}", flush=True)
        while not (Path(__file__).parent / "released").exists():
            time.sleep(0.02)
        print("after the wait", flush=True)
'''
CATALOGUE = """
tasks:
  gated: {entry: mine:Gated, path: .}
  broken: {entry: mine:Broken, path: .}
  talking: {entry: mine:Talking, path: .}
"""

MAX_HEIGHT = 6000
CHARTS_ARE_SHOWN = """() => [...document.querySelectorAll("figure.chart")].every(
    (each) => each.querySelector(".chart-body canvas, .chart-body svg, .chart-message, [role=img]"))
"""

expect.set_options(timeout=60_000)


@dataclass(frozen=True)
class Site:
    """A stack with its console, and the folder of its user."""

    folder: UserFolder
    address: str

    @classmethod
    def of(cls, path: Path) -> "Site":
        """Returns the stack that runs in a folder."""
        folder = UserFolder(path)
        return cls(folder, folder.json_output("status")["console"].rstrip("/"))

    def release(self) -> None:
        """Lets gated tasks end."""
        (self.folder.path / "released").touch()

    def hold(self) -> None:
        """Has gated tasks wait again."""
        (self.folder.path / "released").unlink(missing_ok=True)

    def submit(self, spec: str, name: str) -> str:
        """Submits a spec file and returns the id of its stream."""
        (self.folder.path / f"{name}.yaml").write_text(spec)
        return str(self.folder.run_ok("submit", f"{name}.yaml").split()[0])

    def search(self, name: str, trials: int = 6, **more: Any) -> str:
        """Submits a search over gated tasks."""
        lines = [
            f"name: {name}",
            "kind: search",
            "task_type: gated",
            "direction: minimize",
            f"max_trials: {trials}",
            "concurrency: 2",
            "seed: 7",
            "tuner: {name: random}",
            "space:",
            "  x: {type: uniform, low: -1, high: 1}",
            "  kind: {type: choice, values: [small, large]}",
        ]
        return self.submit("\n".join([*lines, *(f"{key}: {value}" for key, value in more.items())]), name)

    def pid(self, name: str) -> int:
        """Returns the pid of a process of the stack."""
        found = self.folder.json_output("status")
        return next(int(each["pid"]) for each in found["processes"] if each["name"] == name)

    def pids(self, name: str) -> list[int]:
        """Returns the pids of a process of the stack and of its children."""
        pid = self.pid(name)
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]


@contextmanager
def running_site(path: Path) -> Iterator[Site]:
    """Starts a stack in a folder for the block."""
    folder = UserFolder(path)
    (path / "mine.py").write_text(TASKS)
    (path / "catalogue.yaml").write_text(CATALOGUE)
    showcase.write_tasks(path)
    folder.run_ok("up")
    try:
        yield Site.of(folder.path)
    finally:
        (path / "released").touch()
        folder.run("down")


def wait_for_charts(page: Page) -> None:
    """Makes the window as high as the page, and waits until every chart shows its values or says why not."""
    width = (page.viewport_size or {"width": 1280})["width"]
    height = min(page.evaluate("document.documentElement.scrollHeight"), MAX_HEIGHT)
    page.set_viewport_size({"width": width, "height": height})
    poll_until_sync(lambda: page.evaluate(CHARTS_ARE_SHOWN), within_s=60)


@contextmanager
def second_console(site: Site, folder: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Runs another console of a stack, with settings without their prefix, and yields its address."""
    found = stack.load(site.folder.path / ".trackside")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
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


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("site")) as running:
        yield running


def _chromium() -> str | None:
    return (
        os.environ.get("TRACKSIDE_TEST_CHROMIUM")
        or shutil.which("chromium")
        or shutil.which("chromium-browser")
    )


def started_chromium(playwright: Playwright) -> Browser | None:
    """Returns a browser, or None if there is no program of one."""
    program = _chromium()
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    if program is None:
        return None
    return playwright.chromium.launch(executable_path=program, args=arguments)


@pytest.fixture(scope="session")
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
def page(context: BrowserContext, site: Site) -> Iterator[Page]:
    """A page whose errors fail the test."""
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda said: errors.append(said.text) if _is_violation(said.text) else None)
    yield opened
    assert errors == []


def _is_violation(text: str) -> bool:
    return "Content Security Policy" in text or "Uncaught" in text
