"""The login of dashboards in the embedded Postgres: its password, and the DSN that a client logs in with."""

import secrets
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

from trackside.embedded.errors import StackError
from trackside.embedded.files import write_whole
from trackside.eventlog.settings.password_file import read_password
from trackside.projections.database.settings import READER

PASSWORD = "reader-password"


def own_password(folder: Path) -> Path:
    """Returns the file with the reader's password next to the server's own; makes it if missing."""
    path = folder / PASSWORD
    if not path.exists():
        write_whole(path, secrets.token_hex(32) + "\n")
    return path


def reader_dsn(dsn: str, password_file: Path) -> str:
    """Returns the DSN of the same database with the reader's login. StackError without a password to read."""
    try:
        password = read_password(password_file)
    except ValueError as error:
        raise StackError(f"{password_file}, for the password of {READER}: {error}") from error
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{READER}:{quote(password, safe='')}@{host}"))


def without_password(dsn: str) -> str:
    """Returns a DSN that may be shown: without its password."""
    parts = urlsplit(dsn)
    login, at, host = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{login.partition(':')[0]}{at}{host}"))
