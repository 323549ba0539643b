"""Lock files of devices: held by the task process, so that they outlive a killed worker."""

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
from pathlib import Path

import structlog

log = structlog.get_logger("trackside.worker")

RETRY_S = 0.02


class DeviceLocks:
    """The lock files of one worker, one a device.

    Their folder belongs to this worker alone: any other process that has one open is left of an earlier task.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, device_id: str) -> Path:
        """Returns the lock file of a device."""
        return self._folder / f"{device_id}.lock"

    async def acquire(self, device_id: str, shared: bool = False) -> int:
        """Waits until the device's last task is gone; returns a descriptor that holds the lock.

        Several tasks can have a `shared` lock at once.
        """
        path = self.path(device_id)
        while (descriptor := try_lock(path, shared)) is None:
            killed = kill_holders(path)
            log.warning("device locked by processes of an earlier task", device=device_id, killed=killed)
            await asyncio.sleep(RETRY_S)
        return descriptor

    async def wait_until_free(self, device_id: str) -> None:
        """Waits until the device's last task is gone."""
        os.close(await self.acquire(device_id))


def try_lock(path: Path, shared: bool = False) -> int | None:
    """Locks a file; returns the descriptor that holds the lock, None if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    return descriptor


def kill_holders(path: Path) -> list[int]:
    """Kills all other processes that have a file open; returns their pids."""
    wanted, killed = str(path.resolve()), []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid() and _has_open(process, wanted):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(process.name), signal.SIGKILL)
                killed.append(int(process.name))
    return killed


def _has_open(process: Path, wanted: str) -> bool:
    with contextlib.suppress(OSError):  # it has ended, or belongs to another user
        return any(_target(entry) == wanted for entry in (process / "fd").iterdir())
    return False


def _target(entry: Path) -> str:
    try:
        return os.readlink(entry)  # noqa: PTH115
    except OSError:  # closed meanwhile: check the others
        return ""
