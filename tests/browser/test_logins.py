"""Logins with a token or at an issuer of OpenID Connect, and what each role may do: every route is tried.

The console is a process of its own on the open stack, and the issuer signs real tokens.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Site, second_console
from tests.oidc_issuer import CLIENT_ID, CLIENT_SECRET, Fault, OidcIssuer, running_issuer
from trackside.console.pages.catalogue import SITE

pytestmark = pytest.mark.timeout(900)

PATIENCE_S = 60
TOKEN = "a-token-of-a-viewer"
USERS: dict[str, dict[str, Any]] = {
    "ann": {"preferred_username": "ann", "roles": ["staff", "operator"]},
    "vera": {"email": "vera@example.org", "roles": "viewer"},
    "eve": {"preferred_username": "eve", "roles": ["staff"]},
}


@dataclass(frozen=True)
class Guarded:
    """A console whose users log in with a token, or at an issuer."""

    address: str
    issuer: OidcIssuer
    log: Path

    def start_login(self, client: httpx2.Client, target: str = "/fleet") -> str:
        """Returns the address at the issuer that the console sends a browser to."""
        answered = client.get("/oidc/login", params={"next": target})
        assert answered.status_code == 302, answered.text
        return answered.headers["location"]

    def log_in(self, client: httpx2.Client, user: str, target: str = "/fleet") -> httpx2.Response:
        """Goes the way of a browser until the console answers the callback."""
        there = self.start_login(client, target)
        return client.get(sent_back(f"{there}&user={user}"))


def sent_back(address: str) -> str:
    """Returns the address that the issuer sends a browser back to."""
    return httpx2.get(address, timeout=PATIENCE_S).headers["location"]


def settings_for(address: str, folder: Path) -> dict[str, str]:
    """Returns the settings of a console whose issuer is at an address."""
    secret = folder / "secret"
    secret.write_text(f"{CLIENT_SECRET}\n")
    return {
        "OIDC_ISSUER": address,
        "OIDC_CLIENT_ID": CLIENT_ID,
        "OIDC_CLIENT_SECRET_FILE": str(secret),
    }


@pytest.fixture(scope="module")
def running(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("logins")
    users = folder / "users.yaml"
    users.write_text(f"- {{name: vera, role: viewer, sha256: {sha256(TOKEN.encode()).hexdigest()}}}\n")
    with running_issuer(USERS) as issuer:
        settings = {"TOKENS_FILE": str(users), **settings_for(issuer.address, folder)}
        with second_console(site, folder, settings) as address:
            issuer.callback = f"{address}/oidc/callback"
            yield Guarded(address, issuer, folder / "console.log")


@pytest.fixture
def guarded(running: Guarded) -> Guarded:
    running.issuer.fault = ""
    return running


@pytest.fixture
def client(guarded: Guarded) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=guarded.address, timeout=PATIENCE_S, headers={"accept": "text/html"}) as made:
        yield made


def test_users_of_an_issuer_log_in_and_out_in_a_browser(guarded: Guarded, page: Page) -> None:
    page.goto(f"{guarded.address}/experiments?text=some")
    page.get_by_role("link", name="Log in with your organisation").click()
    expect(page.get_by_role("heading", name="Who are you?")).to_be_visible()
    page.get_by_role("link", name="ann").click()
    expect(page).to_have_url(f"{guarded.address}/experiments?text=some")
    expect(page.get_by_text("oidc:ann, operator")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(f"{guarded.address}/fleet")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_role("link", name="Log in with your organisation").click()
    page.get_by_role("link", name="eve").click()
    expect(page.get_by_role("alert")).to_contain_text("You have none of the roles viewer, operator, admin")
    page.get_by_role("link", name="Log in with your organisation").click()
    page.get_by_role("link", name="nobody").click()
    expect(page.get_by_role("alert")).to_contain_text("The issuer refused this login: access_denied.")


def test_a_role_comes_from_the_claims_and_holds_for_each_request(
    guarded: Guarded, client: httpx2.Client
) -> None:
    answered = guarded.log_in(client, "vera")
    assert (answered.status_code, answered.headers["location"]) == (303, "/fleet")
    assert "oidc:vera@example.org, viewer" in client.get("/fleet").text
    assert client.post("/commands/some", data={"type": "trackside.stop-search.v1"}).status_code == 403
    guarded.log_in(client, "ann")
    assert "oidc:ann, operator" in client.get("/fleet").text
    assert client.post("/commands/some", data={"type": "unknown"}).status_code != 403


def test_the_cookies_of_a_login_are_of_no_use_to_scripts_or_other_sites(
    guarded: Guarded, client: httpx2.Client
) -> None:
    there = client.get("/oidc/login")
    answered = client.get(sent_back(f"{there.headers['location']}&user=ann"))
    for cookie in (*there.headers.get_list("set-cookie"), *answered.headers.get_list("set-cookie")):
        assert "httponly" in cookie.lower() and "samesite=lax" in cookie.lower(), cookie
    asked = parse_qs(urlsplit(there.headers["location"]).query)
    assert asked["code_challenge_method"] == ["S256"] and asked["nonce"] and asked["state"]
    assert CLIENT_SECRET not in there.headers["location"]


@pytest.mark.parametrize(
    ("fault", "status", "text"),
    [
        ("nonce", 403, "The ID token is not valid"),
        ("signature", 403, "The ID token is not signed by a key of the issuer"),
        ("expired", 403, "The ID token has expired"),
        ("issuer", 403, "The ID token is not valid"),
        ("audience", 403, "The ID token is not valid"),
        ("no token", 503, "The issuer sent no ID token"),
        ("broken", 503, "does not answer as expected"),
    ],
)
def test_a_token_that_is_wrong_in_any_way_makes_no_session(
    guarded: Guarded, client: httpx2.Client, fault: Fault, status: int, text: str
) -> None:
    guarded.issuer.fault = fault
    answered = guarded.log_in(client, "ann")
    assert answered.status_code == status
    assert text in answered.text
    assert client.get("/fleet").status_code == 303
    guarded.issuer.fault = ""
    assert guarded.log_in(client, "ann").status_code == 303
    assert "a login failed" in guarded.log.read_text()


def test_a_login_that_began_in_another_browser_is_refused_and_what_is_said_shown_as_text(
    guarded: Guarded, client: httpx2.Client
) -> None:
    with httpx2.Client(base_url=guarded.address, timeout=PATIENCE_S) as other:
        back = sent_back(f"{guarded.start_login(other)}&user=ann")
    for address in (back, "/oidc/callback", "/oidc/callback?code=x&state=y"):
        answered = client.get(address)
        assert answered.status_code == 403
        assert "This login was not begun in this browser" in answered.text
    answered = client.get("/oidc/callback", params={"error": "<img src=x onerror=window.hacked=1>"})
    assert answered.status_code == 403 and "<img src=x" not in answered.text
    assert client.get("/fleet").status_code == 303


def test_an_answer_of_the_issuer_is_of_use_once_also_with_a_key_that_has_changed(
    guarded: Guarded, client: httpx2.Client
) -> None:
    assert guarded.log_in(client, "ann").status_code == 303
    guarded.issuer.change_key()
    back = sent_back(f"{guarded.start_login(client)}&user=ann")
    assert client.get(back).status_code == 303
    assert client.get(back).status_code == 403


def test_a_login_continues_at_no_other_site(guarded: Guarded, client: httpx2.Client) -> None:
    for target in ("//evil.example.org", "https://evil.example.org/x", "/\\evil.example.org"):
        assert guarded.log_in(client, "ann", target).headers["location"] == "/"


@pytest.mark.long
def test_a_console_whose_issuer_has_another_name_lets_no_user_in(site: Site, tmp_path: Path) -> None:
    with running_issuer(USERS) as issuer:
        issuer.fault = "other name"
        settings = settings_for(issuer.address, tmp_path)
        with (
            second_console(site, tmp_path, settings) as address,
            httpx2.Client(base_url=address, timeout=PATIENCE_S) as client,
        ):
            answered = client.get("/oidc/login")
            assert answered.status_code == 503
            assert re.search("names itself.*other.example.org", answered.text)
            issuer.fault = ""
            assert client.get("/oidc/login").status_code == 302


@pytest.mark.long
def test_without_its_issuer_a_console_starts_and_says_so_at_the_login(site: Site, tmp_path: Path) -> None:
    settings = settings_for("http://127.0.0.1:1", tmp_path)
    with (
        second_console(site, tmp_path, settings) as address,
        httpx2.Client(base_url=address, timeout=PATIENCE_S) as client,
    ):
        assert "Log in with your organisation" in client.get("/login").text
        answered = client.get("/oidc/login")
        assert answered.status_code == 503
        assert "The issuer http://127.0.0.1:1 does not answer as expected" in answered.text
        assert client.get("/fleet").status_code == 401


def test_a_viewer_sees_pages_and_no_action(site: Site, guarded: Guarded, page: Page) -> None:
    search = site.search("viewed")
    page.goto(f"{guarded.address}/experiments/{search}")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_text("This token is not in the file of users.")).to_be_visible()
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{guarded.address}/experiments/{search}")
    expect(page.locator("h1 .badge")).to_have_text("RUNNING")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    site.folder.release(search)
    expect(page.locator("h1 .badge")).to_have_text("DONE")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def _every_path(stream_id: str) -> list[str]:
    """Returns the addresses of all pages and charts, with the id of a stream in each variable part."""
    paths = [route.path for route in SITE.pages] + [route.path for route in SITE.charts]
    return [re.sub(r"\{\w+\}", stream_id, path) for path in paths]


def test_a_viewer_is_refused_on_every_route_that_could_change_anything(site: Site, guarded: Guarded) -> None:
    search = site.search("kept", trials=1)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    form = {"type": "trackside.stop-search.v1", "command_id": "x" * 16}
    with httpx2.Client(base_url=guarded.address, timeout=PATIENCE_S, headers=headers) as client:
        others = (f"/commands/{search}", f"/experiments/{search}/whatif/start", "/live")
        for path in (*_every_path(search), *others):
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                answered = client.request(method, path, data=form)
                assert answered.status_code in (403, 405, 413), (method, path, answered.status_code)
        assert client.get(f"/commands/{search}", params=form).status_code == 404
    assert not [each for each in site.show(search)["commands"] if "stop" in each["command_type"]]


def test_without_a_login_nothing_is_shown(guarded: Guarded) -> None:
    with httpx2.Client(base_url=guarded.address, timeout=PATIENCE_S) as client:
        artifact = "/tasks/some/some.0/artifact?name=model&version=1"
        for path in (*_every_path("some"), "/live?page=/", "/experiments/some/trials.csv", artifact):
            answered = client.get(path)
            assert answered.status_code == 401, path
            assert not re.search("worker", answered.text)
