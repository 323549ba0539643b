"""Who may do what: checked for each request before any page, with the headers that each answer gets.

Cross-site requests are refused by what browsers say of them (`Sec-Fetch-Site`, else `Origin`), which a page
of another site can't change; see https://web.dev/articles/fetch-metadata. The policy of content allows no
inline script and no inline style, so that a text that slipped through as HTML still runs nothing.
"""

from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from trackside.console.settings import ConsoleSettings
from trackside.console.web.users import LOCAL_USER, Role, Sessions, Tokens, TokensFileError, User
from trackside.telemetry.local_names import is_local, is_local_name, is_name

COOKIE = "trackside_session"
OPEN_PATHS = ("/login", "/logout", "/static/", "/health", "/ready", "/metrics", "/oidc/")
MAX_BODY_BYTES = 1_000_000
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class Access:
    """Finds the user of a request."""

    def __init__(
        self, settings: ConsoleSettings, tokens: Tokens | None, sessions: Sessions, *, has_oidc: bool
    ) -> None:
        self.settings = settings
        self.tokens = tokens
        self.sessions = sessions
        self.needs_login = tokens is not None or has_oidc
        self.only_local = is_local(settings.host)
        self.is_https = settings.url.startswith("https://")

    def user(self, request: HTTPConnection) -> User | None:
        """Returns the user of a request, or None; raises TokensFileError if the file of users is broken."""
        if not self.needs_login:
            return LOCAL_USER
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return None if self.tokens is None else self.tokens.user_of(token.strip())
        found = self.sessions.user(request.cookies.get(COOKIE, ""))
        if found is None or self.tokens is None or found.name.startswith("oidc:"):
            return found
        role = self.tokens.role_of(found.name)  # a user who was removed, or has another role, since the login
        return None if role is None else User(found.name, role)

    def is_own_name(self, host: str) -> bool:
        """Returns whether a Host header names this console: a page of another name may not read it."""
        if self.settings.url:
            return host == urlsplit(self.settings.url).netloc or is_local_name(host)
        return is_local_name(host) if self.only_local else is_name(host)


class Guard:
    """An ASGI application around another one: refuses what may not be, and adds headers to answers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                added = {**_HEADERS, "cache-control": "no-store"}
                message["headers"] = [
                    *message["headers"],
                    *((k.encode(), v.encode()) for k, v in added.items() if k.encode() not in known),
                ]
            await send(message)

        refusal = self._refusal(request)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        host = request.headers.get("host", "")
        if not self._access.is_own_name(host):
            what = (
                f"the Host {host[:100]!r} is not a name of this console; expected localhost, its IP address"
            )
            return PlainTextResponse(f"{what}, or the name that TRACKSIDE_CONSOLE_URL is set to", 421)
        changes = request.method not in ("GET", "HEAD")
        if changes:
            if not is_same_origin(request):
                return PlainTextResponse("a page of another site may not change anything here", 403)
            length = request.headers.get("content-length", "")
            if not length.isdigit() or int(length) > MAX_BODY_BYTES:
                return PlainTextResponse(f"expected a body of at most {MAX_BODY_BYTES:,} bytes", 413)
        try:
            user = self._access.user(request)
        except TokensFileError as error:
            return PlainTextResponse(f"no user can log in: {error}", 503)
        request.state.user = user
        if any(request.url.path == each or request.url.path.startswith(each) for each in OPEN_PATHS):
            return None
        if user is None:
            return self._login(request)
        if changes and user.role < Role.OPERATOR:
            return PlainTextResponse("a viewer can change nothing; log in as an operator", 403)
        return None

    def _login(self, request: Request) -> Response:
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            target = quote(request.url.path + (f"?{request.url.query}" if request.url.query else ""))
            return RedirectResponse(f"/login?next={target}", 303)
        return PlainTextResponse(
            "log in first: open /login, or send the header Authorization: Bearer TOKEN", 401
        )


def is_same_origin(request: HTTPConnection) -> bool:
    """Returns whether a request comes from a page of this console, or from a program that is no browser."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host", "")
