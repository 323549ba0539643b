"""A viewer changes nothing: every route is tried."""

import os
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import Site, second_console
from tests.service_processes import ServiceProcess
from trackside.console.pages.catalogue import SITE

pytestmark = pytest.mark.timeout(300)

TOKEN = "a-token-of-a-viewer"


@pytest.fixture
def guarded(site: Site, tmp_path: Path) -> Iterator[str]:
    """The address of a second console of the same stack, where users log in."""
    users = tmp_path / "users.yaml"
    users.write_text(f"- {{name: vera, role: viewer, sha256: {sha256(TOKEN.encode()).hexdigest()}}}\n")
    with second_console(site, tmp_path, {"TOKENS_FILE": str(users)}) as address:
        yield address


def test_a_viewer_sees_pages_and_no_action(site: Site, guarded: str, context: BrowserContext) -> None:
    site.hold()
    search = site.search("viewed", trials=4)
    page = context.new_page()
    page.goto(f"{guarded}/experiments/{search}")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("This token is not in the file of users.")).to_be_visible()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{guarded}/experiments/{search}")
    expect(page.locator("h1 .badge")).to_have_text("RUNNING")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    site.release()
    expect(page.locator("h1 .badge")).to_have_text("DONE")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def _every_path(stream_id: str) -> list[str]:
    """Returns the addresses of all pages and charts, with the id of a stream in each variable part."""
    paths = [route.path for route in SITE.pages] + [route.path for route in SITE.charts]
    return [re.sub(r"\{\w+\}", stream_id, path) for path in paths]


def test_a_viewer_is_refused_on_every_route_that_could_change_anything(site: Site, guarded: str) -> None:
    site.release()
    search = site.search("kept", trials=1)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    form = {"type": "trackside.stop-search.v1", "command_id": "x" * 16}
    with httpx2.Client(base_url=guarded, headers=headers) as client:
        for path in (
            *_every_path(search),
            f"/commands/{search}",
            f"/experiments/{search}/whatif/start",
            "/live",
        ):
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                answered = client.request(method, path, data=form)
                assert answered.status_code in (403, 405, 413), (method, path, answered.status_code)
        assert client.get(f"/commands/{search}", params=form).status_code == 404
    commands = site.folder.json_output("show", search)["commands"]
    assert not [each for each in commands if "stop" in each["command_type"]]


def test_without_a_login_nothing_is_shown(site: Site, guarded: str) -> None:
    with httpx2.Client(base_url=guarded) as client:
        artifact = "/tasks/some/some.0/artifact?name=model&version=1"
        for path in (*_every_path("some"), "/live?page=/", "/experiments/some/trials.csv", artifact):
            answered = client.get(path)
            assert answered.status_code == 401, path
            assert not re.search("worker", answered.text)


def test_a_console_beyond_loopback_does_not_start_without_a_login(tmp_path: Path) -> None:
    output = tmp_path / "console.log"
    process = ServiceProcess("console", {"TRACKSIDE_CONSOLE_HOST": "0.0.0.0"}, output)
    assert process.process.wait(240) == 2
    assert "TRACKSIDE_CONSOLE_TOKENS_FILE" in output.read_text()
    assert os.environ.get("TRACKSIDE_CONSOLE_HOST") is None
