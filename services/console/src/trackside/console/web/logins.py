"""Logging in and out: by a token of the file of users, or by OpenID Connect."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from trackside.console.settings import ConsoleSettings
from trackside.console.web.access import COOKIE, Access
from trackside.console.web.application import Pages
from trackside.console.web.oidc import Issuer, LoginError
from trackside.console.web.users import Role, TokensFileError, User

_ROLES = {role.name.lower(): role for role in Role}


def add_logins(app: FastAPI, pages: Pages, access: Access, settings: ConsoleSettings) -> None:
    """Adds the routes of logins to an application."""
    logins = Logins(pages, access, settings)
    app.add_route("/login", logins.page, ["GET"])
    app.add_route("/login", logins.by_token, ["POST"])
    app.add_route("/logout", logins.log_out, ["POST"])
    if settings.oidc_issuer:
        app.add_route("/oidc/login", logins.to_issuer, ["GET"])
        app.add_route("/oidc/callback", logins.from_issuer, ["GET"])


class Logins:
    """Makes a session of a token, or of what an issuer says of a user."""

    def __init__(self, pages: Pages, access: Access, settings: ConsoleSettings) -> None:
        self._pages = pages
        self._access = access
        self._settings = settings
        self._oidc = Issuer(settings) if settings.oidc_issuer else None

    async def page(self, request: Request) -> Response:
        """Shows the form."""
        if not self._access.needs_login:
            return RedirectResponse("/", 303)
        return self._form(request, local_path(request.query_params.get("next", "/")), "", 200)

    async def by_token(self, request: Request) -> Response:
        """Makes a session of a token in the form."""
        form = await request.form()
        target, token = local_path(str(form.get("next", "/"))), str(form.get("token", ""))
        tokens = self._access.tokens
        try:
            user = None if tokens is None else tokens.user_of(token.strip())
        except TokensFileError as error:
            return self._form(request, target, str(error), 503)
        if user is None:
            return self._form(request, target, "This token is not in the file of users.", 403)
        return self._session(user, target)

    async def log_out(self, request: Request) -> Response:
        """Ends the session of this browser."""
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE, path="/")
        return answer

    async def to_issuer(self, request: Request) -> Response:
        """Sends the browser to the issuer."""
        target = local_path(request.query_params.get("next", "/"))
        request.session["next"] = target
        base = self._settings.url or str(request.base_url)
        try:
            return await self._issuer.redirect(request, f"{base.rstrip('/')}/oidc/callback")
        except LoginError as error:
            return self._form(request, target, str(error), error.status)

    async def from_issuer(self, request: Request) -> Response:
        """Makes a session of what the issuer says of the user."""
        target = local_path(request.session.get("next", "/"))
        try:
            claims = await self._issuer.claims(request)
        except LoginError as error:
            return self._form(request, target, str(error), error.status)
        request.session.clear()
        role = role_of(claims, self._settings)
        if role is None:
            problem = f"You have none of the roles {', '.join(_ROLES)} in {self._settings.oidc_roles_claim}."
            return self._form(request, target, problem, 403)
        name = claims.get("preferred_username") or claims.get("email") or claims["sub"]
        return self._session(User(f"oidc:{name}"[:200], role), target)

    @property
    def _issuer(self) -> Issuer:
        assert self._oidc is not None  # its routes exist only then
        return self._oidc

    def _session(self, user: User, target: str) -> Response:
        answer = RedirectResponse(target, 303)
        sessions = self._access.sessions
        answer.set_cookie(
            COOKIE,
            sessions.text(user),
            max_age=sessions.limit_s,
            path="/",
            httponly=True,
            secure=self._access.is_https,
            samesite="lax",
        )
        return answer

    def _form(self, request: Request, target: str, problem: str, status: int) -> Response:
        around = self._pages.surroundings("/login", request.query_params, None)
        known = {"has_tokens": self._access.tokens is not None, "has_oidc": self._oidc is not None}
        values = {**around, **known, "title": "Log in", "next": target, "problem": problem, "navigation": ()}
        return HTMLResponse(self._pages.template("login.html", values), status)


def local_path(target: str) -> str:
    """Returns a path of this console to continue at; `/` for an address of another site."""
    found = urlsplit(target)
    is_local = target.startswith("/") and not target.startswith(("//", "/\\")) and not found.netloc
    return target if is_local and "\n" not in target and "\r" not in target else "/"


def role_of(claims: Mapping[str, Any], settings: ConsoleSettings) -> Role | None:
    """Returns the highest role in the claims of a user, else the default one; None: they may not log in."""
    listed = claims.get(settings.oidc_roles_claim, ())
    named = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
    found = [_ROLES[each] for each in named if isinstance(each, str) and each in _ROLES]
    return max(found, default=_ROLES.get(settings.oidc_default_role))
