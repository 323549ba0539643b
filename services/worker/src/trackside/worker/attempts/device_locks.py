"""Lock files of devices: held by the task process, so that they outlive a killed worker.

Each device has one that belongs to its worker, and a GPU has a second one, named by its uuid, that all
workers of the host share.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import re
import signal
from collections.abc import Collection, Mapping
from pathlib import Path

import structlog

from trackside.worker.host.shared_folder import SharedFolder

log = structlog.get_logger("trackside.worker")

RETRY_S = 0.02


class DeviceLocks:
    """The lock files of one worker, one a device, and those of GPUs, `uuids` by device id.

    `folder` belongs to this worker alone: any other process that has one open is left of an earlier task.
    """

    def __init__(self, folder: Path, shared_folder: SharedFolder, uuids: Mapping[str, str]) -> None:
        self._folder = folder
        self._shared_folder = shared_folder
        self._uuids = uuids
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, device_id: str) -> Path:
        """Returns the lock file of a device."""
        return self._folder / f"{device_id}.lock"

    def are_held_by(self, pid: int, device_ids: Collection[str]) -> bool:
        """Returns whether a process has the lock files of all these devices open."""
        process = Path("/proc") / str(pid)
        return all(_has_open(process, str(self.path(each).resolve())) for each in device_ids)

    async def acquire(self, device_ids: Collection[str], shared: bool = False) -> list[int]:
        """Waits until the last tasks of devices are gone; returns descriptors that hold the locks.

        Several tasks can have a `shared` lock at once. Processes left of earlier tasks of this worker are
        killed, those of other workers are not.
        """
        acquired: list[int] = []
        try:
            for device_id in sorted(device_ids):
                descriptor = await self._acquire_own(device_id, shared)
                acquired.append(descriptor)
            for uuid in sorted(self._uuids[each] for each in device_ids if each in self._uuids):
                descriptor = await self._acquire_shared(uuid, shared)
                acquired.append(descriptor)
        except BaseException:
            for descriptor in acquired:
                os.close(descriptor)
            raise
        return acquired

    async def _acquire_shared(self, uuid: str, shared: bool) -> int:
        name = f"{re.sub('[^A-Za-z0-9-]', '-', uuid)}.lock"
        waits = False
        while (descriptor := self._shared_folder.lock(name, shared)) is None:
            if not waits:
                path = str(self._shared_folder.path / name)
                log.warning("GPU locked by a task of another worker of this host", uuid=uuid, file=path)
            waits = True
            await asyncio.sleep(RETRY_S)
        return descriptor

    async def _acquire_own(self, device_id: str, shared: bool = False) -> int:
        path = self.path(device_id)
        while (descriptor := try_lock(path, shared)) is None:
            killed = kill_holders(path)
            log.warning("device locked by processes of an earlier task", device=device_id, killed=killed)
            await asyncio.sleep(RETRY_S)
        return descriptor

    async def wait_until_free(self, device_id: str) -> None:
        """Waits until the device's last task is gone."""
        os.close(await self._acquire_own(device_id))


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
