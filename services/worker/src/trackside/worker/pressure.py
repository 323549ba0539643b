"""Whether a host has run out of memory: what the kernel counts when it kills for it.

A cgroup counts its own processes that were killed, for its own limit or for the whole host. The host's count
has those of all cgroups, of which none need be ours: it is read only where our cgroup has none.

Sources: proc(5) for /proc/vmstat, the kernel's Documentation/admin-guide/cgroup-v2.rst for memory.events and
cgroup-v1/memory.rst for memory.oom_control.
"""

from collections import deque
from pathlib import Path

from trackside.worker.usage import ROOT, HostMemory

NEARLY_FULL = 0.03
"""The part of a host's memory below which a process that dies is taken to have died of it."""
LOOKS = 10
"""How many looks a kill is remembered for: a busy host takes seconds to tell that a process is gone."""
_CGROUP_FILES = ("sys/fs/cgroup/memory.events", "sys/fs/cgroup/memory/memory.oom_control")
_COUNTER = "oom_kill"


class Pressure:
    """Looks now and then, so that it can say whether a process was killed because memory ran out."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._counts = deque([kills(root)], maxlen=LOOKS)
        self._free = deque([1.0], maxlen=LOOKS)

    def look(self, host: HostMemory) -> None:
        """Takes note of how things are; to be called every second or so."""
        self._counts.append(kills(self._root))
        self._free.append(host.available_bytes / max(1, host.memory_bytes))

    def memory_ran_out(self) -> bool:
        """Says whether the kernel has killed for memory, or the host was nearly full, in the last seconds."""
        now = kills(self._root)
        risen = any(count > self._counts[0].get(name, count) for name, count in now.items())
        return risen or min(self._free) < NEARLY_FULL


def kills(root: Path = ROOT) -> dict[str, int]:
    """Reads how often the kernel has killed for memory: in our cgroup, else in the whole host."""
    for name in (*_cgroup_files(root), "proc/vmstat"):
        try:
            text = (root / name).read_text("utf-8")
        except OSError:
            continue
        if (count := counted(text)) is not None:
            return {name: count}
    return {}


def counted(text: str) -> int | None:
    """Gives how many kills a file of the kernel's counts; None if it counts none."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == _COUNTER and value.strip().isdigit():
            return int(value)
    return None


def _cgroup_files(root: Path) -> list[str]:
    """Lists where the count of our cgroup may be: at its path, or at the mount as in a container."""
    try:
        lines = (root / "proc/self/cgroup").read_text("utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if path.strip("/") and not controllers:
            found.append(f"sys/fs/cgroup/{path.strip('/')}/memory.events")
        elif path.strip("/") and "memory" in controllers.split(","):
            found.append(f"sys/fs/cgroup/memory/{path.strip('/')}/memory.oom_control")
    return [*found, *_CGROUP_FILES]
