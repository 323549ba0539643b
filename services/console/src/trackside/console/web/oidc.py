"""Logins at an issuer of OpenID Connect: the way there, and what comes back of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog
from starlette.requests import Request
from starlette.responses import Response

from trackside.console.settings import ConsoleSettings

if TYPE_CHECKING:
    from authlib.integrations.starlette_client import StarletteOAuth2App

logger = structlog.get_logger("trackside.console")
LOGIN_LIMIT_S = 600
"""How long a user may take at the issuer, s."""
MAX_REASON = 200


class LoginError(Exception):
    """A login failed; the message is for its user. Status 403: refused; 503: the issuer does not work."""

    def __init__(self, text: str, status: int = 403) -> None:
        super().__init__(text)
        self.status = status


class Issuer:
    """The issuer of the settings. It is asked for its endpoints at the first login, not at the start."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._client = _client(settings)

    async def redirect(self, request: Request, callback: str) -> Response:
        """Returns the way to the issuer, which sends the user back to `callback`; raises LoginError."""
        try:
            await self._check_name()
            answer: Response = await self._client.authorize_redirect(request, callback)
        except Exception as error:
            raise self._explained(error) from error
        return answer

    async def claims(self, request: Request) -> Mapping[str, Any]:
        """Returns what the signed token says of the user who has come back; raises LoginError."""
        try:
            await self._check_name()
            token = await self._client.authorize_access_token(request)
        except Exception as error:
            raise self._explained(error) from error
        found = token.get("userinfo")
        if not isinstance(found, Mapping):
            raise self._logged(LoginError("The issuer sent no ID token; the console needs one.", 503))
        return found

    async def _check_name(self) -> None:
        """Raises LoginError if the address of the issuer serves another one: its tokens could be for any."""
        found = await self._client.load_server_metadata()
        name, expected = str(found.get("issuer", "")), self._settings.oidc_issuer
        if name.rstrip("/") != expected.rstrip("/"):
            self._client = _client(self._settings)  # asks again at the next login
            raise LoginError(
                f"TRACKSIDE_CONSOLE_OIDC_ISSUER is {expected}, but the issuer there names itself "
                f"{name[:MAX_REASON] or 'nothing'}. An administrator has to correct one of them.",
                503,
            )

    def _explained(self, error: Exception) -> LoginError:
        from authlib.integrations.base_client import MismatchingStateError, OAuthError
        from httpx2 import HTTPError
        from joserfc.errors import BadSignatureError, ExpiredTokenError, JoseError

        match error:
            case LoginError():
                found = error
            case HTTPError() | ValueError() | RuntimeError() | KeyError():
                found = LoginError(
                    f"The issuer {self._settings.oidc_issuer} does not answer as expected: "
                    f"{str(error)[:MAX_REASON] or type(error).__name__}. Try again later.",
                    503,
                )
            case MismatchingStateError():
                minutes = LOGIN_LIMIT_S // 60
                found = LoginError(
                    f"This login was not begun in this browser, or more than {minutes} minutes ago. "
                    "Log in again."
                )
            case BadSignatureError():
                found = LoginError("The ID token is not signed by a key of the issuer.")
            case ExpiredTokenError():
                found = LoginError(
                    "The ID token has expired. Log in again; check the clocks if this repeats."
                )
            case JoseError():
                found = LoginError(f"The ID token is not valid: {str(error)[:MAX_REASON]}.")
            case OAuthError():
                found = LoginError(f"The issuer refused this login: {str(error.error)[:MAX_REASON]}.")
            case _:
                raise error
        return self._logged(found)

    def _logged(self, error: LoginError) -> LoginError:
        logger.warning("a login failed", issuer=self._settings.oidc_issuer, reason=str(error))
        return error


def _client(settings: ConsoleSettings) -> "StarletteOAuth2App":
    from authlib.integrations.starlette_client import OAuth  # slow to import, and few installations need it

    assert settings.oidc_client_secret_file is not None  # the settings are checked
    made: StarletteOAuth2App = OAuth().register(
        "issuer",
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret_file.read_text("utf-8").strip(),
        server_metadata_url=f"{settings.oidc_issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256"},
    )
    return made
