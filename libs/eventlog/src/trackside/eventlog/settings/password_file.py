"""The password of Postgres from a file, as Docker's secrets and Kubernetes' mounts give it."""

from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit


def read_password(path: Path) -> str:
    """Returns the first line of a file; ValueError if it can't be read or is empty."""
    try:
        return password_in(path.read_bytes())
    except OSError as error:
        raise ValueError(f"the password can't be read: {error.strerror}") from None


def password_in(content: bytes) -> str:
    """Returns the first line of a file's content; ValueError if it is empty or no text."""
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise ValueError("the password can't be read: its bytes are no text") from None
    if not lines or not lines[0]:
        raise ValueError("the file is empty: expected the password in its first line")
    return lines[0]


def dsn_with_password(dsn: str, password: str) -> str:
    """Returns a DSN with the password; ValueError if it has one already, or no user that it could be of."""
    parts = urlsplit(dsn)
    user, _, hosts = parts.netloc.rpartition("@")
    if not user or ":" in user:
        raise ValueError(
            "the password is in a file: expected an address with a user and without a password, as in "
            "postgresql://user@host:port/database"
        )
    return urlunsplit(parts._replace(netloc=f"{user}:{quote(password, safe='')}@{hosts}"))
