"""A folder of files that all workers of a host share, also those of other users and of other logs.

It is writable for all, with the sticky bit, as /tmp is. Whoever has an account on the host can keep devices
busy by its files, and nothing else: locks and numbers are all that is read from them.
"""

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class SharedFolderError(Exception):
    """The folder can't be used; the message says why, and what to do."""


class SharedFolder:
    """The folder; it is created if it isn't there. Raises SharedFolderError if it can't be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        problem = ""
        try:
            self._create()
            if not stat.S_ISDIR(path.lstat().st_mode):
                problem = "it is not a folder"
            elif not os.access(path, os.R_OK | os.W_OK | os.X_OK):
                problem = "this user may not write there"
        except OSError as error:
            problem = str(error.strerror)
        if problem:
            raise SharedFolderError(
                f"{path}: {problem}. Workers of this host share their locks of GPUs there: set "
                "TRACKSIDE_WORKER_HOST_DIR to a folder that all of them may write to, the same for each"
            )

    def lock(self, name: str, shared: bool = False) -> int | None:
        """Locks a file; returns the descriptor that holds the lock, None if another process has it.

        The file is created if it isn't there. Raises OSError.
        """
        while True:
            descriptor = self._open(name)
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                if self.has(name, descriptor):  # else it was removed meanwhile, as old files in /tmp are
                    os.utime(descriptor)
                    return descriptor
            except OSError as error:
                os.close(descriptor)
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    return None
                raise
            os.close(descriptor)

    def has(self, name: str, descriptor: int) -> bool:
        """Returns whether a file of this name is there, and is the one that is open."""
        try:
            return os.path.samestat(os.lstat(self.path / name), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def read_or_remove(self, name: str, max_bytes: int) -> bytes | None:
        """Returns what is in a file on which another process has a lock; None, and removes it, if none has.

        To be called where no other process may lock it first. Raises OSError.
        """
        descriptor = os.open(self.path / name, _FLAGS)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return os.pread(descriptor, max_bytes, 0)
        else:
            with contextlib.suppress(PermissionError):  # in a sticky folder only its owner may
                (self.path / name).unlink(missing_ok=True)
            return None
        finally:
            os.close(descriptor)

    def _create(self) -> None:
        try:
            self.path.mkdir(parents=True)
        except FileExistsError:
            return
        self.path.chmod(0o1777)  # whatever the umask is

    def _open(self, name: str) -> int:
        # Without O_CREAT first: in a sticky folder Linux refuses it for files of others (protected_regular).
        path = self.path / name
        while True:
            try:
                descriptor = os.open(path, _FLAGS)
                break
            except FileNotFoundError:
                self._create()
            try:
                descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
                os.fchmod(descriptor, 0o666)  # whatever the umask is
                break
            except FileExistsError:
                continue
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return descriptor
