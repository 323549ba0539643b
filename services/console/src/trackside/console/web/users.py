"""Who uses the console: roles, tokens, sessions. A session is a signed cookie; the console keeps none."""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from itsdangerous import BadSignature, URLSafeTimedSerializer
from pydantic import BaseModel, ConfigDict, StringConstraints, TypeAdapter, ValidationError

KEY_CHARACTERS = 32


class Role(IntEnum):
    """What a user may do: a viewer reads, an operator publishes commands, an admin also deletes."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class User:
    """A user with a role."""

    name: str
    role: Role


LOCAL_USER = User("local", Role.ADMIN)
"""The user where no login is needed: a user of this machine, who could use the command line as well."""


class TokensFileError(Exception):
    """The file of users can't be read; the message says where and what was expected."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    role: Literal["viewer", "operator", "admin"]
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


_ENTRIES = TypeAdapter(list[_Entry])


class Tokens:
    """The users of a tokens file; it is read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_at: tuple[int, int] | None = None
        self._users: dict[str, User] = {}
        self._look()

    def user_of(self, token: str) -> User | None:
        """Returns the user of a token, or None; the comparison takes the same time for all tokens."""
        self._look()
        digest = sha256(token.encode()).hexdigest()
        found = None
        for known, user in self._users.items():
            if hmac.compare_digest(known, digest):
                found = user
        return found

    def role_of(self, name: str) -> Role | None:
        """Returns the role that a user has now, or None for one who was removed from the file."""
        self._look()
        return next((user.role for user in self._users.values() if user.name == name), None)

    def _look(self) -> None:
        try:
            status = self._path.stat()
            changed = (status.st_mtime_ns, status.st_size)
            if changed != self._read_at:
                self._users = _parsed(self._path.read_text("utf-8"), self._path)
                self._read_at = changed
        except OSError as error:
            raise TokensFileError(f"{self._path}: {error.strerror or error}") from error


def _parsed(text: str, path: Path) -> dict[str, User]:
    try:
        entries = _ENTRIES.validate_python(yaml.safe_load(text) or [])
    except yaml.YAMLError as error:
        raise TokensFileError(f"{path} is not YAML: {error}") from error
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        where = ".".join(map(str, problem["loc"])) or "the file"
        raise TokensFileError(
            f"{path}: {where}: {problem['msg']}; expected a list of {{name, role, sha256}}"
        ) from None
    return {entry.sha256: User(entry.name, Role[entry.role.upper()]) for entry in entries}


class Sessions:
    """Makes and reads the signed text in the cookie of a session."""

    def __init__(self, key: str, hours: float) -> None:
        self._signer = URLSafeTimedSerializer(key, salt="trackside-session")
        self.limit_s = int(hours * 3600)

    def text(self, user: User) -> str:
        """Returns the cookie of a user who has logged in."""
        return self._signer.dumps({"name": user.name, "role": user.role.name})

    def user(self, text: str) -> User | None:
        """Returns the user of a cookie, or None if it was changed or is too old."""
        try:
            found: Any = self._signer.loads(text, max_age=self.limit_s)
        except BadSignature:
            return None
        return User(found["name"], Role[found["role"]]) if isinstance(found, Mapping) else None


def session_key(path: Path | None) -> str:
    """Returns the secret in a file, or a new one; raises ValueError for one that is too short."""
    if path is None:
        return secrets.token_urlsafe(KEY_CHARACTERS)
    key = path.read_text("utf-8").strip()
    if len(key) < KEY_CHARACTERS:
        raise ValueError(f"{path} has {len(key)} characters; expected at least {KEY_CHARACTERS}")
    return key
