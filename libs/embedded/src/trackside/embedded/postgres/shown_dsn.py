"""How the address of Postgres is shown to people."""

from urllib.parse import urlsplit, urlunsplit


def without_password(dsn: str) -> str:
    """Returns a DSN that may be shown: without its password."""
    parts = urlsplit(dsn)
    login, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{login.partition(':')[0]}{at}{host}"))
