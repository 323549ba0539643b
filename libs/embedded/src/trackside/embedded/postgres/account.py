"""The account that Postgres runs as: it refuses to run as root."""

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from trackside.embedded.errors import StackError

UNPRIVILEGED = ("nobody", "daemon")
OWN_SERVER = "or set TRACKSIDE_POSTGRES_DSN to a server of your own"


@dataclass(frozen=True)
class Account:
    """The user that Postgres runs as; both ids are None for the user who starts it."""

    name: str
    uid: int | None = None
    gid: int | None = None

    @property
    def owner(self) -> int:
        """The uid that owns what Postgres writes."""
        return os.geteuid() if self.uid is None else self.uid


def account() -> Account:
    """Returns the user to run as: this one, or `nobody` for root; StackError if there is no such user."""
    uid = os.geteuid()
    if uid != 0:
        try:
            return Account(pwd.getpwuid(uid).pw_name)
        except KeyError:
            raise StackError(
                f"Postgres runs only as a user that has a name, and uid {uid} has none: add it to "
                f"/etc/passwd, {OWN_SERVER}"
            ) from None
    for name in UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise StackError(
        f"Postgres refuses to run as root, and this machine has no user {' or '.join(UNPRIVILEGED)}: add one "
        f"to /etc/passwd, start Trackside as an ordinary user, {OWN_SERVER}"
    )


def user_name(uid: int) -> str:
    """Returns the name of a user, or `uid 1234` for one that has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def can_enter(path: Path, who: Account) -> bool:
    """Returns whether the account may pass through every folder down to `path`."""
    if who.uid is None:
        return True
    for folder in [path, *path.parents]:
        status = folder.stat()
        shift = 6 if status.st_uid == who.uid else 3 if status.st_gid == who.gid else 0
        if not status.st_mode >> shift & 0o1:
            return False
    return True
