"""Whether a host has run out of memory: what the kernel counts when it kills for it.

Sources: proc(5) for /proc/vmstat, the kernel's Documentation/admin-guide/cgroup-v2.rst for memory.events and
cgroup-v1/memory.rst for memory.oom_control.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from trackside.worker.host.usage import ROOT, HostMemory, own_cgroups

NEARLY_FULL = 0.03
"""The part of a host's memory below which a process that dies is taken to have died of it."""
READINGS_KEPT = 10
"""How many looks a kill is remembered for: a busy host takes seconds to tell that a process is gone."""
_COUNTER = "oom_kill"


class MemoryPressure:
    """Looks now and then, so that it can say whether a process was killed because memory ran out."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._counts = deque([oom_kill_count(root)], maxlen=READINGS_KEPT)
        self._free = deque([1.0], maxlen=READINGS_KEPT)

    def record(self, host: HostMemory) -> None:
        """Takes note of how things are; to be called every second or so."""
        self._counts.append(oom_kill_count(self._root))
        self._free.append(host.available_bytes / max(1, host.memory_bytes))

    def oom_killed(self) -> bool:
        """Says whether the kernel has killed for memory, in the last seconds, where this process is."""
        return oom_kill_count(self._root) > self._counts[0]

    def nearly_full(self) -> bool:
        """Says whether the host was nearly full lately: then others kill, as systemd-oomd does."""
        return min(self._free) < NEARLY_FULL


def oom_kill_count(root: Path = ROOT) -> int:
    """Reads how often the kernel has killed for memory: in the cgroup of this process, which its tasks share.

    Only where there is none that counts, it is the whole host: kills there are mostly somebody else's.
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
    """Gives how many kills a file of the kernel's counts; None if it counts none."""
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key == _COUNTER and value.strip().isdigit():
            return int(value)
    return None


def _own_counters(root: Path) -> Iterator[Path]:
    """Gives the files that count kills in the cgroup that this process is in, not in those below it."""
    for controller, folder in own_cgroups(root).items():
        if controller == "memory":
            yield folder / "memory.oom_control"
        elif not controller:
            yield folder / "memory.events.local"
            yield folder / "memory.events"  # before Linux 5.2
