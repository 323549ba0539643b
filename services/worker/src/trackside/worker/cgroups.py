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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from trackside.worker.pressure import counted
from trackside.worker.usage import ROOT

log = structlog.get_logger("trackside.worker")

CONTROLLERS = ("memory", "pids")
_LIMITS = {
    "memory": {1: "memory.limit_in_bytes", 2: "memory.max"},
    "pids": {1: "pids.max", 2: "pids.max"},
}
_KILLS = {1: "memory.oom_control", 2: "memory.events"}
_OWN = "worker"


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
    _starved: set[str] = field(default_factory=set)
    _gone: set[str] = field(default_factory=set)

    async def enter(self, pid: int, exited: asyncio.Future[int], memory_bytes: int | None) -> None:
        """Puts a process, before it runs a task, into a cgroup if there is something to limit.

        The cgroup goes with the process. A process that runs another task keeps its cgroup.
        """
        name = str(pid)
        self._starved.discard(name)
        if not self.folders or not (memory_bytes or self.max_processes):
            return
        if name in self._kills:
            self._kills[name] = self._count(name)
            return
        self._kills[name] = 0
        try:
            # In a thread: the kernel may take 15 ms to move a process.
            await asyncio.to_thread(self._put, name, memory_bytes or 0)
        except OSError as error:
            log.warning("a process has no cgroup", pid=pid, reason=str(error))
        exited.add_done_callback(lambda _: self._leave(name))

    def memory_ran_out(self, pid: int) -> bool:
        """Says whether the kernel has killed in a process's cgroup since its task began."""
        name = str(pid)
        return name in self._starved or self._count(name) > self._kills.get(name, 0)

    def _count(self, name: str) -> int:
        folder = self.folders.get("memory")
        if folder is None:
            return 0
        try:
            text = (folder / name / _KILLS[self.version]).read_text("utf-8")
        except OSError:  # it has none
            return 0
        return counted(text) or 0

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
        if self.memory_ran_out(int(name)):
            self._starved.add(name)  # it is asked about once the cgroup is gone
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
    paths = _paths(root)
    by_version = {
        1: {each: root / "sys/fs/cgroup" / each for each in CONTROLLERS if each in paths},
        2: dict.fromkeys(CONTROLLERS, root / "sys/fs/cgroup") if "" in paths else {},
    }
    try:
        if by_version[1]:
            folders = {each: _below(mount, paths[each]) / name for each, mount in by_version[1].items()}
            for folder in folders.values():
                folder.mkdir(exist_ok=True)
            return Cgroups(folders, 1)
        if by_version[2] and (root / "sys/fs/cgroup/cgroup.controllers").exists():
            folder = _delegated(_below(root / "sys/fs/cgroup", paths[""]), name)
            return Cgroups(dict.fromkeys(CONTROLLERS, folder), 2)
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


def _paths(root: Path) -> dict[str, str]:
    """Gives the cgroup that this process is in, by controller; version 2 has the empty name."""
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return {}
    return dict(_path_of(lines))


def _path_of(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        _, controllers, path = line.split(":", 2)
        yield from ((each, path) for each in controllers.split(","))


def _below(mount: Path, path: str) -> Path:
    """Gives the folder of a cgroup; inside a container the path may be one of the host's."""
    folder = mount / path.strip("/")
    return folder if folder.is_dir() else mount


def _pids(folder: Path) -> list[int]:
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def _write(path: Path, value: object) -> None:
    """Writes to a file of the kernel's, which is there or can't be made."""
    with path.open("r+") as file:
        file.write(str(value))
