"""Usage of a host and of its tasks: memory, CPU, device memory. Reads /proc and the limits of cgroups.

Sources: proc(5); the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst. The
functions that read take the root folder, so that tests can read another one.
"""

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from trackside.worker.host.nvml import GpuProcess, GpuReading
from trackside.worker.own_memory import KIB, numbers, own_memory, shares_of_others

ROOT = Path("/")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LIMIT, _USED, _INACTIVE = 0, 1, 2
READINGS = 3
"""How often sessions are measured at most while processes start or end beside them."""
_CGROUP_FILES = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a task: host bytes, bytes by device id, CPU in percent of one core.

    A device whose driver doesn't report memory per process is left out.
    """

    memory_bytes: int = 0
    cuda_memory_bytes_by_device: Mapping[str, int] = field(default_factory=dict)
    cpu_percent: float = 0.0

    @property
    def cuda_memory_bytes(self) -> int:
        """The most that it uses of one device, in bytes."""
        return max(self.cuda_memory_bytes_by_device.values(), default=0)


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Total and available bytes of this host, or of this container; and which limits what is available."""

    memory_bytes: int
    available_bytes: int
    limited_by: Literal["host", "cgroup"] = field(default="host", compare=False)


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Busy and total time of all cores since the host started, in ticks."""

    busy: int = 0
    total: int = 0


@dataclass(frozen=True, slots=True)
class SessionUsage:
    """The usage of a session: own memory and its peak in bytes, CPU time since its start."""

    pids: frozenset[int] = frozenset()
    memory_bytes: int = 0
    peak_bytes: int = 0
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Some fields of /proc/PID/stat; `cpu_s` includes children that have ended.

    `image` is where its stack starts: equal for processes of which one was forked from the other.
    """

    pid: int
    parent: int
    group: int
    session: int
    cpu_s: float
    resident_bytes: int
    image: int = 0


def read_host(root: Path = ROOT) -> HostMemory:
    """Returns the memory of the host, or of this process's cgroup where that is less."""
    meminfo = numbers(root / "proc/meminfo", KIB)
    total, available = meminfo.get("MemTotal", 0), meminfo.get("MemAvailable", 0)
    limited_by: Literal["host", "cgroup"] = "host"
    for limit, used, _ in _cgroup_limits(root):
        total = min(total, limit)
        if limit - used < available:
            available, limited_by = max(0, limit - used), "cgroup"
    return HostMemory(total, available, limited_by)


def memory_pool(root: Path = ROOT) -> str:
    """Returns the name of the memory that `read_host` measures; equal where two workers share it.

    It is the kernel, by its boot id, and the cgroup whose limit is the lowest, by its inode: containers see
    the same ones. Empty if the kernel doesn't tell its boot id: then nothing is known to be shared.
    """
    boot_id = _text(root / "proc/sys/kernel/random/boot_id").strip()
    total = numbers(root / "proc/meminfo", KIB).get("MemTotal", 0)
    limits = [(limit, folder) for limit, _, folder in _cgroup_limits(root) if limit < total]
    if not boot_id or not limits:
        return boot_id
    lowest = min(limit for limit, _ in limits)
    # Of several with this limit it is the outermost: those inside share it.
    outermost = [folder for limit, folder in limits if limit == lowest][-1]
    return f"{boot_id}-{outermost.stat().st_ino}"


def _cgroup_limits(root: Path) -> Iterable[tuple[int, int, Path]]:
    """Yields limit, use and folder of this process's memory cgroup and its parents, from the inside out.

    Reclaimable cache isn't use.
    """
    paths = _cgroup_paths(root)
    for controller, files in _CGROUP_FILES.items():
        if controller not in paths:
            continue
        mount, folder = paths[controller]
        # Inside a container the path may be one of the host: read what exists, up to the mount.
        while folder.is_relative_to(mount):
            limit, used = _text(folder / files[_LIMIT]).strip(), _text(folder / files[_USED]).strip()
            if limit.isdigit() and used.isdigit():
                cache = numbers(folder / "memory.stat").get(files[_INACTIVE], 0)
                yield int(limit), max(0, int(used) - cache), folder
            folder = folder.parent


def own_cgroups(root: Path = ROOT) -> dict[str, Path]:
    """Returns the folder of this process's cgroup by controller; that of version 2 has the empty name.

    Inside a container the path may be one of the host: then the mount is returned.
    """
    found = _cgroup_paths(root).items()
    return {controller: folder if folder.is_dir() else mount for controller, (mount, folder) in found}


def _cgroup_paths(root: Path) -> dict[str, tuple[Path, Path]]:
    """Returns by controller its mount, and the folder of this process according to /proc."""
    found = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            mount = root / "sys/fs/cgroup" / controller
            found[controller] = mount, mount / path.strip("/")
    return found


def read_cpu(root: Path = ROOT) -> CpuTime:
    """Returns the CPU time of all cores since the host started."""
    line = _text(root / "proc/stat").partition("\n")[0].split()
    ticks = [int(part) for part in line[1:9]]  # user nice system idle iowait irq softirq steal
    return CpuTime(busy=sum(ticks) - sum(ticks[3:5]), total=sum(ticks)) if len(ticks) >= 5 else CpuTime()


def host_cpu_percent(before: CpuTime, now: CpuTime) -> float:
    """Returns the CPU use between two readings, in percent: 100 for all cores."""
    total = now.total - before.total
    return min(100.0, max(0.0, 100.0 * (now.busy - before.busy) / total)) if total > 0 else 0.0


def read_sessions(leaders: Collection[int], root: Path = ROOT) -> dict[int, SessionUsage]:
    """Returns the usage of each leader's session or process group; none for one that has ended.

    A process that starts or ends while others are measured changes their shares of what it shares with them:
    then all are measured again. If processes come and go all the time, the lowest of some readings counts.
    """
    wanted = frozenset(leaders)
    stats = _read_stats(root) if wanted else {}
    found: dict[int, SessionUsage] = {}
    for _ in range(READINGS):
        sharers = _sharers(stats, wanted)
        for leader, usage in _read_usages(stats, wanted, _inherited_bytes(sharers, root), root).items():
            found[leader] = min(found.get(leader, usage), usage, key=lambda each: each.peak_bytes)
        if not sharers or sharers == _sharers(stats := _read_stats(root), wanted):
            break
    return found


def _read_stats(root: Path) -> dict[int, ProcessStat]:
    proc = root / "proc"
    names = [name for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208 - as in _text
    stats = (parse_stat(_text(f"{proc}/{name}/stat")) for name in names)
    return {stat.pid: stat for stat in stats if stat is not None}


def _sharers(stats: Mapping[int, ProcessStat], leaders: Collection[int]) -> dict[int, frozenset[int]]:
    """Returns by forkserver the processes that share its pages, itself among them.

    The forkserver is the parent of leaders, and of their image; a program that a task runs has another one.
    """
    parents = {stats[leader].parent for leader in leaders if leader in stats}
    images = {pid: stats[pid].image for pid in parents if pid in stats and stats[pid].image}
    return {
        forkserver: frozenset(each.pid for each in stats.values() if each.image == image)
        for forkserver, image in images.items()
    }


def _inherited_bytes(sharers: Mapping[int, Collection[int]], root: Path) -> dict[int, int]:
    """Returns by process what it has of the pages of the forkserver: an equal share of what that shares."""
    inherited: dict[int, int] = {}
    for forkserver, pids in sharers.items():
        if len(pids) > 1:
            share = shares_of_others(root / "proc" / str(forkserver)) // (len(pids) - 1)
            inherited |= dict.fromkeys(pids, share)
    return inherited


def _read_usages(
    stats: Mapping[int, ProcessStat], leaders: Collection[int], inherited: Mapping[int, int], root: Path
) -> dict[int, SessionUsage]:
    members = _members(stats, leaders)
    return {leader: _session_usage(each, inherited, root) for leader, each in members.items()}


def _members(stats: Mapping[int, ProcessStat], leaders: Collection[int]) -> dict[int, list[ProcessStat]]:
    """Returns the processes of each leader's session or process group."""
    members: dict[int, list[ProcessStat]] = defaultdict(list)
    for stat in stats.values():
        leader = stat.session if stat.session in leaders else stat.group
        if leader in leaders:
            members[leader].append(stat)
    return members


def parse_stat(text: str) -> ProcessStat | None:
    """Parses /proc/PID/stat, whose second field may contain any character; None if the process has ended."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    if len(fields) < 22 or fields[0] in "ZX":
        return None
    return ProcessStat(
        pid=int(head.partition(" ")[0]),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        cpu_s=sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S,
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
        image=int(fields[25]) if len(fields) > 25 else 0,
    )


def _session_usage(stats: list[ProcessStat], inherited: Mapping[int, int], root: Path) -> SessionUsage:
    """Returns the usage of processes; the peak of the session is at least that of each process."""
    memory_bytes = peak_bytes = 0
    for stat in stats:
        own = own_memory(root / "proc" / str(stat.pid), inherited.get(stat.pid, 0))
        memory_bytes += stat.resident_bytes if own is None else own.now_bytes
        peak_bytes = max(peak_bytes, 0 if own is None else own.peak_bytes)
    return SessionUsage(
        pids=frozenset(stat.pid for stat in stats),
        memory_bytes=memory_bytes,
        peak_bytes=max(memory_bytes, peak_bytes),
        cpu_s=sum(stat.cpu_s for stat in stats),
    )


def cpu_percent(before: SessionUsage | None, now: SessionUsage, elapsed_s: float) -> float:
    """Returns the CPU use of a session between two readings in percent, 100 for one core; 0 for the first."""
    if before is None or elapsed_s <= 0:
        return 0.0
    return max(0.0, 100.0 * (now.cpu_s - before.cpu_s) / elapsed_s)


def usage_of(group: SessionUsage, percent: float, readings: Mapping[str, GpuReading]) -> Usage:
    """Returns the usage of a session; `readings` are by device id."""
    on_devices = {}
    for device_id, reading in readings.items():
        own = [process for process in reading.processes if process.pid in group.pids]
        if own and all(process.memory_bytes is not None for process in own):
            on_devices[device_id] = known_bytes(own)
    return Usage(group.memory_bytes, on_devices, percent)


def highest_usage(before: Usage | None, now: Usage) -> Usage:
    """Returns the maximum of each quantity."""
    if before is None:
        return now
    earlier, later = before.cuda_memory_bytes_by_device, now.cuda_memory_bytes_by_device
    return Usage(
        memory_bytes=max(before.memory_bytes, now.memory_bytes),
        cuda_memory_bytes_by_device={
            device: max(earlier.get(device, 0), later.get(device, 0))
            for device in earlier.keys() | later.keys()
        },
        cpu_percent=max(before.cpu_percent, now.cpu_percent),
    )


def foreign_bytes(
    reading: GpuReading,
    own_pids: Collection[int],
    claimed_bytes: int = 0,
    neighbours: Iterable[tuple[int, int]] = (),
) -> int:
    """Returns the bytes of a device that the driver and processes of others use.

    Where the driver lists no processes, or not their memory, it is the used memory less that of our tasks:
    what is known of it, and at least `claimed_bytes`, their reservations. `neighbours` are (used, claimed)
    bytes of other workers' tasks, which don't count either.
    """
    others = [process for process in reading.processes if process.pid not in own_pids]
    if reading.processes and all(process.memory_bytes is not None for process in reading.processes):
        near = sum(used for used, _ in neighbours)
        return reading.reserved_bytes + max(0, known_bytes(others) - near)
    own = [process for process in reading.processes if process.pid in own_pids]
    near = sum(max(each) for each in neighbours)
    return max(0, reading.used_bytes - max(known_bytes(own), claimed_bytes) - near)


def foreign_on_host(host: HostMemory, own: Iterable[Usage]) -> int:
    """Returns the host bytes that others use, including the worker itself."""
    used = host.memory_bytes - host.available_bytes
    return max(0, used - sum(usage.memory_bytes for usage in own))


def known_bytes(processes: Iterable[GpuProcess]) -> int:
    """Returns the sum of the known memory of processes, in bytes."""
    return sum(process.memory_bytes or 0 for process in processes)


def _text(path: Path | str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - there may be thousands of processes
            return file.read().decode("utf-8", "replace")
    except OSError:  # the process has ended, the limit isn't set, or the host has no cgroups
        return ""
