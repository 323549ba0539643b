"""Detects that the host ran out of memory, by the kernel's counters of OOM kills.

Sources: proc(5) for /proc/vmstat, the kernel's Documentation/admin-guide/cgroup-v2.rst for memory.events and
cgroup-v1/memory.rst for memory.oom_control.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from trackside.worker.host.usage import ROOT, HostMemory, own_cgroups, read_host

NEARLY_FULL = 0.03
"""Fraction of available host memory below which a killed process counts as killed for memory."""
READINGS_KEPT = 10
"""How many readings are kept: a busy host takes seconds to report that a process is gone."""
_COUNTER = "oom_kill"


class MemoryPressure:
    """Keeps the last readings, to tell whether a process was killed because memory ran out."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._counts = deque([oom_kill_count(root)], maxlen=READINGS_KEPT)
        self._readings = deque([read_host(root)], maxlen=READINGS_KEPT)

    def record(self, host: HostMemory) -> None:
        """Adds a reading; to be called about every second."""
        self._counts.append(oom_kill_count(self._root))
        self._readings.append(host)

    def oom_killed(self) -> bool:
        """Returns whether the kernel has killed in this process's cgroup since the oldest reading."""
        return oom_kill_count(self._root) > self._counts[0]

    def nearly_full(self) -> bool:
        """Returns whether memory was nearly full lately: then daemons such as systemd-oomd kill, too."""
        return any(host.available_bytes < NEARLY_FULL * host.memory_bytes for host in self._readings)

    def lowest(self) -> HostMemory:
        """Returns the reading with the least available memory lately."""
        known = (host for host in self._readings if host.memory_bytes)
        return min(known, key=lambda host: host.available_bytes, default=HostMemory(0, 0))


def oom_kill_count(root: Path = ROOT) -> int:
    """Returns how often the kernel has killed for memory in the cgroup of this process and its tasks.

    Without a cgroup that counts, it is that of the whole host, where most kills concern other processes.
    """
    for path in (*_own_counters(root), root / "proc/vmstat"):
        try:
            count = parse_oom_kills(path.read_text("utf-8"))
        except OSError:
            continue
        if count is not None:
            return count
    return 0


def parse_oom_kills(text: str) -> int | None:
    """Returns the number of OOM kills in the text of a kernel file; None if it has none."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == _COUNTER and value.strip().isdigit():
            return int(value)
    return None


def _own_counters(root: Path) -> Iterator[Path]:
    """Yields the files that count kills in this process's cgroup, without those below it."""
    for controller, folder in own_cgroups(root).items():
        if controller == "memory":
            yield folder / "memory.oom_control"
        elif not controller:
            yield folder / "memory.events.local"
            yield folder / "memory.events"  # before Linux 5.2
