"""An issuer of OpenID Connect on loopback: discovery, authorization code with PKCE, signed ID tokens, keys.

A test may give it a fault, so that the token it issues next is wrong in one way.
"""

import html
import secrets
import socket
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote, urlencode

import uvicorn
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.polling import poll_until_sync
from trackside.eventlog.clock import now_ms

CLIENT_ID = "trackside-console"
CLIENT_SECRET = "a secret: 50% of it"
Fault = Literal["", "nonce", "signature", "expired", "issuer", "audience", "no token", "broken", "other name"]


@dataclass
class OidcIssuer:
    """Issues tokens for the users that it has, as the issuer of an organisation would."""

    address: str
    users: dict[str, dict[str, Any]]
    callback: str = ""
    fault: Fault = ""
    key: RSAKey = field(default_factory=lambda: _new_key("first"))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def change_key(self) -> None:
        """Signs with a new key from now on, and publishes no other."""
        self.key = _new_key("second")

    def application(self) -> Starlette:
        """Returns the web application."""
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._discovery),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/keys", self._keys),
            ]
        )

    async def _discovery(self, request: Request) -> Response:
        name = "http://other.example.org" if self.fault == "other name" else self.address
        return JSONResponse(
            {
                "issuer": name,
                "authorization_endpoint": f"{self.address}/authorize",
                "token_endpoint": f"{self.address}/token",
                "jwks_uri": f"{self.address}/keys",
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def _keys(self, request: Request) -> Response:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        expected = {
            "client_id": CLIENT_ID,
            "response_type": "code",
            "redirect_uri": self.callback,
            "code_challenge_method": "S256",
        }
        wrong = [name for name, value in expected.items() if asked.get(name) != value]
        if wrong or "openid" not in asked.get("scope", "").split():
            return PlainTextResponse(f"a wrong request: {wrong} in {asked}", 400)
        user = asked.pop("user", None)
        if user is None:
            links = (
                f'<a href="/authorize?{html.escape(urlencode({**asked, "user": each}))}">{each}</a>'
                for each in (*self.users, "nobody")
            )
            return HTMLResponse(f"<h1>Who are you?</h1>{' '.join(links)}")
        if user not in self.users:
            answered = {"error": "access_denied", "state": asked["state"]}
        else:
            code = secrets.token_urlsafe()
            self.codes[code] = {**asked, "user": user}
            answered = {"code": code, "state": asked["state"]}
        return RedirectResponse(f"{self.callback}?{urlencode(answered)}")

    async def _token(self, request: Request) -> Response:
        if self.fault == "broken":
            return PlainTextResponse("out of memory", 500)
        form = await request.form()
        given = b64decode(request.headers.get("authorization", "").removeprefix("Basic ")).decode()
        if [unquote(each) for each in given.split(":", 1)] != [CLIENT_ID, CLIENT_SECRET]:
            return JSONResponse({"error": "invalid_client"}, 401)
        asked = self.codes.pop(str(form.get("code")), None)  # a code is valid once
        verifier = str(form.get("code_verifier"))
        if asked is None or create_s256_code_challenge(verifier) != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        answered = {"access_token": secrets.token_urlsafe(), "token_type": "Bearer", "expires_in": 60}
        if self.fault != "no token":
            answered["id_token"] = self._id_token(asked)
        return JSONResponse(answered)

    def _id_token(self, asked: dict[str, str]) -> str:
        now = now_ms() // 1000 - (3600 if self.fault == "expired" else 0)
        claims = {
            "iss": "http://other.example.org" if self.fault == "issuer" else self.address,
            "aud": "another-client" if self.fault == "audience" else CLIENT_ID,
            "nonce": "another" if self.fault == "nonce" else asked["nonce"],
            "sub": f"id-of-{asked['user']}",
            "iat": now,
            "exp": now + 60,
            **self.users[asked["user"]],
        }
        key = RSAKey.generate_key(2048) if self.fault == "signature" else self.key
        return jwt.encode({"alg": "RS256", "kid": self.key.kid}, claims, key)


def _new_key(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig"})


@contextmanager
def running_issuer(users: dict[str, dict[str, Any]]) -> Iterator[OidcIssuer]:
    """Serves an issuer on a free port of loopback for the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    issuer = OidcIssuer(f"http://127.0.0.1:{listener.getsockname()[1]}", users)
    server = uvicorn.Server(uvicorn.Config(issuer.application(), log_level="warning"))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        poll_until_sync(lambda: server.started)
        yield issuer
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
