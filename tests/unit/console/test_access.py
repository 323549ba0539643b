import asyncio
from hashlib import sha256
from pathlib import Path

import pytest
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from trackside.console.settings import ConsoleSettings
from trackside.console.web.access import COOKIE, Access, Guard
from trackside.console.web.logins import local_path, role_of
from trackside.console.web.server import serving
from trackside.console.web.users import Role, Sessions, Tokens, User

TOKENS = {"viewer": "viewer-token", "operator": "operator-token", "admin": "admin-token"}
CHANGES = {"content-length": "0"}


async def answer(request: Request) -> PlainTextResponse:
    user = request.state.user
    return PlainTextResponse(user.name if user else "nothing")


def guarded(access: Access, host: str = "127.0.0.1") -> TestClient:
    app = Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])
    return TestClient(Guard(app, access), base_url=f"http://{host}", follow_redirects=False)


def local() -> TestClient:
    return guarded(Access(ConsoleSettings(), None, Sessions("k" * 32, 1), has_oidc=False))


def with_tokens(folder: Path) -> tuple[TestClient, Sessions]:
    path = folder / "users.yaml"
    digests = {role: sha256(token.encode()).hexdigest() for role, token in TOKENS.items()}
    lines = (f"- {{name: {role}, role: {role}, sha256: {digest}}}" for role, digest in digests.items())
    path.write_text("\n".join(lines))
    sessions = Sessions("k" * 32, 1)
    settings = ConsoleSettings(host="0.0.0.0", tokens_file=path)
    return guarded(Access(settings, Tokens(path), sessions, has_oidc=False), "trackside.lan"), sessions


def bearer(role: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[role]}"}


def test_on_loopback_the_user_is_a_local_admin_without_login_and_no_page_of_the_web_gets_in() -> None:
    assert local().get("/experiments").text == "local"
    assert local().post("/commands/x", headers=CHANGES).status_code == 200
    answered = local().get("/", headers={"host": "evil.example.org"})
    assert answered.status_code == 421
    assert "TRACKSIDE_CONSOLE_URL" in answered.text
    assert local().post("/commands/x", content=b"x" * 1_000_001).status_code == 413
    assert not ConsoleSettings(host="127.0.0.1").has_login


async def answer_of_server(app: ASGIApp, request: str) -> bytes:
    async with serving(app, "127.0.0.1", 0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request.encode())
        try:
            return await reader.read()
        finally:
            writer.close()


@pytest.mark.parametrize("has_login", [False, True])
async def test_a_request_that_names_no_host_is_refused_whoever_sends_it(
    tmp_path: Path, has_login: bool
) -> None:
    client = with_tokens(tmp_path)[0] if has_login else local()
    named = {"127.0.0.1:8470": 200, "0.0.0.0:8470": 421, "[::]": 421, "": 421, "0.0.0.0": 421}
    for host, status in named.items():
        request = f"GET /login HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        answered = await answer_of_server(client.app, request)
        assert answered.startswith(f"HTTP/1.1 {status} ".encode()), (host, answered)
    answered = await answer_of_server(client.app, "GET /login HTTP/1.0\r\n\r\n")
    assert answered.startswith(b"HTTP/1.1 421 "), answered


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example.org"},
        {"origin": "null"},
    ],
)
def test_a_page_of_another_site_changes_nothing(headers: dict[str, str]) -> None:
    assert local().post("/commands/x", headers={**CHANGES, **headers}).status_code == 403
    assert local().get("/", headers=headers).status_code == 200


def test_every_answer_has_the_policy_of_content() -> None:
    for answered in (
        local().get("/"),
        local().post("/x", headers={**CHANGES, "sec-fetch-site": "cross-site"}),
    ):
        policy = answered.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answered.headers["x-content-type-options"] == "nosniff"


def test_a_browser_without_a_session_is_sent_to_the_login_and_back(tmp_path: Path) -> None:
    client, _ = with_tokens(tmp_path)
    answered = client.get("/experiments?text=a%20b", headers={"accept": "text/html"})
    assert answered.status_code == 303
    assert answered.headers["location"] == "/login?next=/experiments%3Ftext%3Da%2520b"
    assert client.get("/data/x").status_code == 401
    assert client.get("/static/a.js").status_code == 200


@pytest.mark.parametrize(("role", "status"), [("viewer", 403), ("operator", 200), ("admin", 200)])
def test_a_viewer_changes_nothing(tmp_path: Path, role: str, status: int) -> None:
    client, _ = with_tokens(tmp_path)
    assert client.get("/", headers=bearer(role)).text == role
    for path in ("/commands/x", "/anything", "/experiments"):
        assert client.post(path, headers={**CHANGES, **bearer(role)}).status_code == status


def test_a_session_has_the_role_that_the_file_has_now_a_broken_one_lets_no_user_in(tmp_path: Path) -> None:
    client, sessions = with_tokens(tmp_path)
    cookie = sessions.text(User("admin", Role.ADMIN))
    client.cookies.set(COOKIE, cookie)
    assert client.post("/commands/x", headers=CHANGES).status_code == 200
    path = tmp_path / "users.yaml"
    path.write_text(path.read_text().replace("role: admin", "role: viewer"))
    assert client.post("/commands/x", headers=CHANGES).status_code == 403
    path.write_text("[]\n")
    assert client.get("/").status_code == 401
    client.cookies.clear()
    path.write_text("- [")
    answered = client.get("/", headers=bearer("admin"))
    assert answered.status_code == 503
    assert "not YAML" in answered.text


@pytest.mark.parametrize(
    "target", ["//evil.org", "https://evil.org/x", "/\\evil.org", "javascript:x", "", "/a\nb"]
)
def test_a_login_continues_only_within_the_console(target: str) -> None:
    assert local_path(target) == "/"
    assert local_path("/experiments?a=1") == "/experiments?a=1"


@pytest.mark.parametrize(
    ("claims", "default", "role"),
    [
        ({"roles": ["viewer", "admin"]}, "", Role.ADMIN),
        ({"roles": "operator"}, "", Role.OPERATOR),
        ({"roles": ["other", 7]}, "", None),
        ({}, "viewer", Role.VIEWER),
        ({"roles": {"admin": True}}, "", None),
    ],
)
def test_the_role_of_a_user_of_an_issuer(claims: dict[str, object], default: str, role: Role | None) -> None:
    assert role_of(claims, ConsoleSettings(oidc_default_role=default)) is role


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "trackside.example.org"])
def test_beyond_loopback_a_login_is_needed_and_for_an_issuer_the_secret_of_the_console(host: str) -> None:
    with pytest.raises(
        ValidationError, match="TRACKSIDE_CONSOLE_TOKENS_FILE or TRACKSIDE_CONSOLE_OIDC_ISSUER"
    ):
        ConsoleSettings(host=host)
    assert ConsoleSettings(host=host, tokens_file=Path("users.yaml")).has_login
    with pytest.raises(ValidationError, match="OIDC_CLIENT_SECRET_FILE"):
        ConsoleSettings(oidc_issuer="https://id.example.org", oidc_client_id="trackside")


def test_services_are_names_with_addresses() -> None:
    settings = ConsoleSettings(services="dispatcher=http://127.0.0.1:1,scheduler=http://127.0.0.1:2/")
    local = {"dispatcher": "http://127.0.0.1:1", "scheduler": "http://127.0.0.1:2"}
    assert settings.addresses_of_services == local
    with pytest.raises(ValidationError, match="NAME=http://HOST:PORT"):
        ConsoleSettings(services="dispatcher")


@pytest.mark.parametrize("url", ["javascript:{trace_id}", "https://traces.example.org/", "/trace/{trace_id}"])
def test_the_address_of_traces_is_http_and_has_the_place_of_the_id(url: str) -> None:
    with pytest.raises(ValidationError, match=r"with \{trace_id\} once"):
        ConsoleSettings(trace_url=url)
    found = ConsoleSettings(trace_url="http://127.0.0.1:16686/trace/{trace_id}")
    assert found.address_of_trace("a/b") == "http://127.0.0.1:16686/trace/a%2Fb"
    assert ConsoleSettings().address_of_trace("a") == ""
