"""Folders outside a stack's own, needed only for root: files that Postgres's account must reach.

A process that uses one has a shared lock (flock) on a file in it that only root may open; one that gets the
exclusive lock may remove the folder.
"""

import errno
import fcntl
import os
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path

from trackside.embedded.errors import StackError
from trackside.embedded.postgres.account import OWN_SERVER, user_name

SHARED = Path("/var/lib/trackside-embedded")
"""Writable by root only, open to all. Not /var/tmp: systemd removes what is 30 days old there."""
FORMER = Path("/var/tmp")
"""Where earlier releases had such folders."""
LOCK = "used.lock"


def owned_folder(path: Path, mode: int, owner: int) -> Path:
    """Makes a folder of that mode and owner, whatever the umask.

    One that is there is taken only if it is a true folder of the owner or of this user. StackError if not, or
    if the folder can't be made; OSError if there is no room for it.
    """
    try:
        path.mkdir(mode=mode, exist_ok=True)
        status = path.lstat()
        if path.is_symlink() or status.st_uid not in (os.geteuid(), owner):
            raise StackError(f"{path} belongs to {user_name(status.st_uid)}: remove it, {OWN_SERVER}")
        os.chown(path, owner, -1)
        path.chmod(mode)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # another user would have no more room
        raise StackError(
            f"Postgres needs the folder {path}, which can't be made: {error.strerror}; start Trackside as an "
            f"ordinary user, {OWN_SERVER}"
        ) from error
    return path


def hold(path: Path, mode: int, owner: int, holds: ExitStack) -> int:
    """Makes a folder as `owned_folder` does and locks it; returns the lock, which `holds` closes."""
    while True:
        owned_folder(path, mode, owner)
        try:
            lock = lock_file(path / LOCK, fcntl.LOCK_SH)
        except FileNotFoundError:
            continue  # removed since it was made
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), (path / LOCK).stat()):
                holds.callback(os.close, lock)
                return lock
        os.close(lock)


def remove_unless_held(folder: Path) -> None:
    """Removes a folder that no process holds."""
    try:
        lock = lock_file(folder / LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # held, or another process removes it
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def lock_file(path: Path, how: int) -> int:
    """Locks a file that only this user may open, made if it is missing; returns the open descriptor.

    BlockingIOError if `how` has LOCK_NB and another process holds a conflicting lock.
    """
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, how)
    except BaseException:
        os.close(lock)
        raise
    return lock
