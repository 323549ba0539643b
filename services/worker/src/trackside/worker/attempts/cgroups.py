"""A cgroup for each task's process, where the host lets us: limits on memory and on processes.

The limit on memory is the `max_memory` of the task's type in the catalogue: what goes beyond is killed by the
kernel, and nothing else on the host is. Sources: the kernel's Documentation/admin-guide/cgroup-v2.rst,
cgroup-v1/memory.rst and cgroup-v1/pids.rst. Where there is no cgroup that may be written to, such as in most
containers, one line in the log says so, and tasks run without.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from trackside.worker.attempts.memory_pressure import parse_oom_kills
from trackside.worker.host.usage import ROOT, own_cgroups

log = structlog.get_logger("trackside.worker")

CONTROLLERS = ("memory", "pids")
_LIMITS = {
    "memory": {1: "memory.limit_in_bytes", 2: "memory.max"},
    "pids": {1: "pids.max", 2: "pids.max"},
}
_KILLS = {1: "memory.oom_control", 2: "memory.events"}
_OWN = "worker"
MOST_LEFT = 1_000


class UnwritableError(Exception):
    """No cgroup can be made here; the message says why."""


@dataclass(slots=True)
class Cgroups:
    """The cgroups of one worker's processes: below a folder for each controller, one folder for version 2."""

    folders: Mapping[str, Path]
    version: int
    max_processes: int = 0
    _kills: dict[str, int] = field(default_factory=dict)
    """By cgroup that is there: how often the kernel had killed in it when its task began."""
    _left: dict[str, bool] = field(default_factory=dict)
    """By cgroup of which the process has ended, the last ones: whether the kernel had killed in it."""
    _gone: set[str] = field(default_factory=set)

    async def enter(self, pid: int, exited: asyncio.Future[int], memory_bytes: int | None) -> None:
        """Puts a process, before it runs a task, into a cgroup if there is something to limit.

        The cgroup goes with the process. A process that runs another task keeps its cgroup.
        """
        name = str(pid)
        self._left.pop(name, None)
        if not self.folders or not (memory_bytes or self.max_processes):
            return
        if name in self._kills:
            self._kills[name] = self._count(name) or 0
            return
        self._kills[name] = 0
        try:
            # In a thread: the kernel may take 15 ms to move a process.
            await asyncio.to_thread(self._put, name, memory_bytes or 0)
        except OSError as error:
            log.warning("a process has no cgroup", pid=pid, reason=str(error))
        exited.add_done_callback(lambda _: self._leave(name))

    def killed_for_memory(self, pid: int) -> bool | None:
        """Says whether the kernel has killed in a process's cgroup since its task began; None if it has none.

        The kernel counts a kill where the process was that it killed, whosever limit was reached.
        """
        name = str(pid)
        if name in self._left:
            return self._left[name]
        count = self._count(name)
        return None if count is None else count > self._kills.get(name, 0)

    def _count(self, name: str) -> int | None:
        folder = self.folders.get("memory")
        if folder is None:
            return None
        try:
            text = (folder / name / _KILLS[self.version]).read_text("utf-8")
        except OSError:  # it has none
            return None
        return parse_oom_kills(text)

    def _put(self, name: str, memory_bytes: int) -> None:
        limits = {"memory": memory_bytes, "pids": self.max_processes}
        for controller, folder in self.folders.items():
            (folder / name).mkdir(exist_ok=True)
            if limits[controller]:
                _write(folder / name / _LIMITS[controller][self.version], limits[controller])
        for folder in set(self.folders.values()):
            _write(folder / name / "cgroup.procs", name)

    def close(self) -> None:
        """Kills what is left in any task's cgroup, and removes all of the worker's that nothing is in."""
        self.clear()
        for folder in set(self.folders.values()):
            with contextlib.suppress(OSError):  # the worker itself is in it, or a process isn't gone yet
                folder.rmdir()

    def clear(self) -> None:
        """Kills what is in cgroups of an earlier worker, and removes them."""
        for folder in set(self.folders.values()):
            self._gone |= {path.name for path in folder.iterdir() if path.is_dir() and path.name != _OWN}
        for name in self._gone:
            self._kill(name)
        self._remove_gone()

    def _leave(self, name: str) -> None:
        """Kills what is left in a cgroup; it is removed now, or once its processes are gone."""
        killed = self.killed_for_memory(int(name))
        if killed is not None:
            self._left[name] = killed  # it is asked about once the cgroup is gone
            if len(self._left) > MOST_LEFT:
                del self._left[next(iter(self._left))]
        self._kills.pop(name, None)
        self._gone.add(name)
        self._kill(name)
        self._remove_gone()

    def _kill(self, name: str) -> None:
        for folder in set(self.folders.values()):
            for pid in _pids(folder / name):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _remove_gone(self) -> None:
        for name in sorted(self._gone):
            for folder in set(self.folders.values()):
                with contextlib.suppress(OSError):  # a process in it is not gone yet
                    (folder / name).rmdir()
            if not any((folder / name).is_dir() for folder in self.folders.values()):
                self._gone.discard(name)


def cgroups_of(worker_id: str, data_dir: Path, max_processes: int, root: Path = ROOT) -> Cgroups:
    """Gives the cgroups of a worker, those of an earlier one cleared; none with a line in the log.

    An earlier one is one with the same data folder, which one worker at a time may have: two stacks on a host
    may each have a worker of the same name, and don't touch each other's.
    """
    place = data_dir.stat()
    try:
        found = _found(f"trackside-{worker_id}-{place.st_dev:x}-{place.st_ino:x}", root)
    except UnwritableError as error:
        log.info("tasks run without cgroups: max_memory is checked, not enforced", reason=str(error))
        return Cgroups({}, 0)
    found.max_processes = max_processes
    found.clear()
    return found


def _found(name: str, root: Path) -> Cgroups:
    own = own_cgroups(root)
    first = {each: own[each] for each in CONTROLLERS if each in own}
    try:
        if first:
            folders = {each: base / name for each, base in first.items()}
            for folder in folders.values():
                folder.mkdir(exist_ok=True)
            return Cgroups(folders, 1)
        if "" in own and (root / "sys/fs/cgroup/cgroup.controllers").exists():
            return Cgroups(dict.fromkeys(CONTROLLERS, _delegated(own[""], name)), 2)
    except OSError as error:
        raise UnwritableError(f"{error.filename or name}: {error.strerror}") from error
    raise UnwritableError("no controller for memory or pids is mounted")


def _delegated(base: Path, name: str) -> Path:
    """Makes a folder whose children may have limits: for that nothing may run in its parent itself."""
    folder = base / name
    folder.mkdir(exist_ok=True)
    try:
        _control(base)
    except OSError:  # busy, maybe only because we are in it
        (folder / _OWN).mkdir(exist_ok=True)
        _write(folder / _OWN / "cgroup.procs", os.getpid())
        try:
            _control(base)
        except OSError:
            _write(base / "cgroup.procs", os.getpid())
            raise
    _control(folder)
    return folder


def _control(folder: Path) -> None:
    on = (folder / "cgroup.subtree_control").read_text().split()
    missing = [f"+{each}" for each in CONTROLLERS if each not in on]
    if missing:
        _write(folder / "cgroup.subtree_control", " ".join(missing))


def _pids(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _write(path: Path, value: object) -> None:
    """Writes to a file of the kernel's, which is there or can't be made."""
    with path.open("r+") as file:
        file.write(str(value))
