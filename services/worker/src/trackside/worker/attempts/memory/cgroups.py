"""A cgroup for each task process, where the host permits it: limits memory and the number of processes.

The memory limit is `max_memory` of the task type in the catalogue, or the estimate of the task if that is
enforced: the kernel kills the task that exceeds it, and nothing else. Where no cgroup can be written, as in
most containers, this is logged once and tasks run without. Sources: the kernel's
Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and cgroup-v1/pids.rst.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from trackside.worker.attempts.memory.memory_cap import MemoryCap
from trackside.worker.attempts.memory.memory_pressure import parse_oom_kills
from trackside.worker.host.usage import ROOT, own_cgroups
from trackside.worker.own_memory import numbers

log = structlog.get_logger("trackside.worker")

CONTROLLERS = ("memory", "pids")
_LIMITS = {
    "memory": {1: "memory.limit_in_bytes", 2: "memory.max"},
    "pids": {1: "pids.max", 2: "pids.max"},
}
_NO_LIMIT = {1: "-1", 2: "max"}
_KILLS = {1: "memory.oom_control", 2: "memory.events"}
_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
_TOTAL = {1: "total_", 2: ""}
_PEAKS = {1: "memory.max_usage_in_bytes", 2: "memory.peak"}
UNLIMITED_BYTES = 2**62
"""From here on a limit of version 1 is none: the kernel shows the greatest number of whole pages."""
_OWN = "worker"
MAX_ENDED = 1_000


class UnwritableError(Exception):
    """No cgroup can be created; the message has the reason."""


@dataclass(frozen=True, slots=True)
class CgroupMemory:
    """What the kernel has counted in the cgroup of a process, in bytes; `limit_bytes` is 0 without a limit.

    `killed` says whether it has killed in it since its task began. `peak_bytes` includes pages of files.
    """

    killed: bool = False
    limit_bytes: int = 0
    peak_bytes: int = 0


@dataclass(slots=True)
class Cgroups:
    """The cgroups of one worker's processes, below a folder for each controller; version 2 has one folder."""

    folders: Mapping[str, Path]
    version: int
    max_processes: int = 0
    _kills: dict[str, int] = field(default_factory=dict)
    """By existing cgroup: the number of OOM kills when its task began."""
    _sizes: dict[str, int] = field(default_factory=dict)
    """By existing cgroup: its memory limit in bytes, 0 for none."""
    _ended: dict[str, CgroupMemory] = field(default_factory=dict)
    """By cgroup whose process has ended, for the last ones: what the kernel had counted in it."""
    _removing: set[str] = field(default_factory=set)

    @property
    def enforcement(self) -> str:
        """How the memory limits of tasks are enforced, for `/ready`: `cgroup`, or `watch` without one."""
        return "cgroup" if "memory" in self.folders else "watch"

    async def enter(self, pid: int, exited: asyncio.Future[int], cap: MemoryCap | None) -> None:
        """Moves a process into a cgroup before it runs a task, if there is a limit.

        The cgroup is removed with the process. A warm process keeps its cgroup, with the limit of its task.
        """
        name, memory_bytes = str(pid), 0 if cap is None else cap.size_bytes
        self._ended.pop(name, None)
        if name in self._kills:
            await self.set_limit(pid, cap)
            self._kills[name] = self._count(name) or 0
            return
        if not self.folders or not (memory_bytes or self.max_processes):
            return
        self._kills[name], self._sizes[name] = 0, memory_bytes
        try:
            # In a thread: the kernel may take 15 ms to move a process.
            await asyncio.to_thread(self._put, name, memory_bytes)
        except OSError as error:
            log.warning("a process has no cgroup", pid=pid, reason=str(error))
        exited.add_done_callback(lambda _: self._on_exit(name))

    async def set_limit(self, pid: int, cap: MemoryCap | None) -> None:
        """Changes the memory limit of a process, if it has a cgroup and another limit than this one."""
        name, memory_bytes = str(pid), 0 if cap is None else cap.size_bytes
        if "memory" not in self.folders or self._sizes.get(name, memory_bytes) == memory_bytes:
            return
        self._sizes[name] = memory_bytes
        file = self.folders["memory"] / name / _LIMITS["memory"][self.version]
        try:
            # In a thread: with a lower limit the kernel first takes back pages of files.
            await asyncio.to_thread(_write, file, memory_bytes or _NO_LIMIT[self.version])
        except OSError as error:
            log.warning("the memory limit of a process can't be changed", pid=pid, reason=str(error))

    def follow(self, pid: int, exited: asyncio.Future[int]) -> None:
        """Follows a process whose task an earlier worker has started, if that has put it into a cgroup."""
        name = str(pid)
        if any((folder / name).is_dir() for folder in self.folders.values()):
            self._kills[name] = 0
            if "memory" in self.folders:
                self._sizes[name] = self._bytes(name, _LIMITS["memory"][self.version])
            exited.add_done_callback(lambda _: self._on_exit(name))

    def memory(self, pid: int) -> CgroupMemory | None:
        """Returns what the kernel has counted in a process's cgroup, also after its end; None without one.

        A kill is counted in the cgroup of the killed process, also if another limit was reached.
        """
        name = str(pid)
        if name in self._ended:
            return self._ended[name]
        count = self._count(name)
        if count is None:
            return None
        return CgroupMemory(
            killed=count > self._kills.get(name, 0),
            limit_bytes=self._bytes(name, _LIMITS["memory"][self.version]),
            peak_bytes=self._bytes(name, _PEAKS[self.version]),
        )

    def used_bytes(self, pid: int) -> int | None:
        """Returns the bytes in use in a process's cgroup, without pages of files; None without a cgroup."""
        folder = self.folders.get("memory")
        used = self._bytes(str(pid), _USED[self.version]) if folder is not None else 0
        if folder is None or not used:
            return None
        prefix = _TOTAL[self.version]
        counted = numbers(folder / str(pid) / "memory.stat")
        files = sum(counted.get(f"{prefix}{each}_file", 0) for each in ("active", "inactive"))
        return max(0, used - files)

    def _bytes(self, name: str, file: str) -> int:
        """Returns the number in a file of a process's memory cgroup; 0 for none, or for no limit."""
        try:
            text = (self.folders["memory"] / name / file).read_text("utf-8").strip()
        except OSError:
            return 0
        found = int(text) if text.isdigit() else 0
        return found if found < UNLIMITED_BYTES else 0

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
        """Kills what is left in the cgroups of tasks, and removes all empty cgroups of the worker."""
        self.clear()
        for folder in set(self.folders.values()):
            with contextlib.suppress(OSError):  # the worker itself is in it, or a process isn't gone yet
                folder.rmdir()

    def clear(self, spared: Collection[int] = ()) -> None:
        """Kills the processes in cgroups of an earlier worker but those `spared`, and removes these."""
        kept = {_OWN, *map(str, spared)}
        for folder in set(self.folders.values()):
            self._removing |= {
                path.name for path in folder.iterdir() if path.is_dir() and path.name not in kept
            }
        for name in self._removing:
            self._kill(name)
        self._remove_gone()

    def _on_exit(self, name: str) -> None:
        """Kills the processes in a cgroup; it is removed now, or once they are gone."""
        counted = self.memory(int(name))
        if counted is not None:
            self._ended[name] = counted  # needed after the cgroup is gone
            if len(self._ended) > MAX_ENDED:
                del self._ended[next(iter(self._ended))]
        self._kills.pop(name, None)
        self._sizes.pop(name, None)
        self._removing.add(name)
        self._kill(name)
        self._remove_gone()

    def _kill(self, name: str) -> None:
        for folder in set(self.folders.values()):
            for pid in _pids(folder / name):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def _remove_gone(self) -> None:
        for name in sorted(self._removing):
            for folder in set(self.folders.values()):
                with contextlib.suppress(OSError):  # a process in it is not gone yet
                    (folder / name).rmdir()
            if not any((folder / name).is_dir() for folder in self.folders.values()):
                self._removing.discard(name)


def cgroups_of(
    worker_id: str,
    data_dir: Path,
    max_processes: int,
    root: Path = ROOT,
    spared: Collection[int] = (),
) -> Cgroups:
    """Returns the cgroups of a worker and clears those of an earlier one; logs why if there can be none.

    The processes `spared` have outlived the earlier one.

    The name contains the identity of the data directory, which one worker at a time may use: two workers of
    the same id on one host don't touch each other's cgroups.
    """
    identity = data_dir.stat()
    try:
        found = _create(f"trackside-{worker_id}-{identity.st_dev:x}-{identity.st_ino:x}", root)
    except UnwritableError as error:
        log.info(
            "tasks run without cgroups: max_memory is checked, not enforced, and `enforce: estimate` is "
            "enforced by watching the memory of tasks",
            reason=str(error),
        )
        return Cgroups({}, 0)
    found.max_processes = max_processes
    found.clear(spared)
    return found


def _create(name: str, root: Path) -> Cgroups:
    own = own_cgroups(root)
    first = {each: own[each] for each in CONTROLLERS if each in own}
    try:
        if first:
            folders = {each: base / name for each, base in first.items()}
            for folder in folders.values():
                folder.mkdir(exist_ok=True)
            return Cgroups(folders, 1)
        if "" in own and (root / "sys/fs/cgroup/cgroup.controllers").exists():
            return Cgroups(dict.fromkeys(CONTROLLERS, _create_delegated(own[""], name)), 2)
    except OSError as error:
        raise UnwritableError(f"{error.filename or name}: {error.strerror}") from error
    raise UnwritableError("no controller for memory or pids is mounted")


def _create_delegated(base: Path, name: str) -> Path:
    """Creates a cgroup whose children may have limits: no process may be in its parent for that."""
    folder = base / name
    folder.mkdir(exist_ok=True)
    try:
        _enable_controllers(base)
    except OSError:  # busy, maybe only because this process is in it
        (folder / _OWN).mkdir(exist_ok=True)
        _write(folder / _OWN / "cgroup.procs", os.getpid())
        try:
            _enable_controllers(base)
        except OSError:
            _write(base / "cgroup.procs", os.getpid())
            raise
    _enable_controllers(folder)
    return folder


def _enable_controllers(folder: Path) -> None:
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
    """Writes to a kernel file without creating it."""
    with path.open("r+") as file:
        file.write(str(value))
