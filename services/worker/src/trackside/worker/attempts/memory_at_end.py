"""What is known about memory when a task has ended: which limit it hit, what it used, what was left."""

from dataclasses import dataclass

from trackside.contracts.memory import shown
from trackside.contracts.resources import MemoryLimit
from trackside.worker.attempts.cgroups import CgroupMemory
from trackside.worker.attempts.memory_pressure import MemoryPressure

_AT_LIMIT = 0.95
"""Fraction of its limit that a cgroup has reached when the kernel kills in it for that limit: memory is
charged to it in batches.
"""
_WHERE = {"host": "the host", "cgroup": "the worker's own cgroup"}


@dataclass(frozen=True, slots=True)
class MemoryAtEnd:
    """What is known about memory, in bytes; 0 if unknown.

    `limit` is the one that a process must have hit if it was killed; None if memory was left. `max_bytes` is
    max_memory of the task type, `used_bytes` the peak of the task. `where`, the host or the worker's own
    cgroup, had `available_bytes` of `total_bytes` left.
    """

    limit: MemoryLimit | None = None
    max_bytes: int = 0
    used_bytes: int = 0
    available_bytes: int = 0
    total_bytes: int = 0
    where: str = _WHERE["host"]

    @property
    def hit(self) -> dict[str, object]:
        """The limit that was hit, as fields of AttemptEnded."""
        return {"limit": self.limit, "limit_bytes": self.max_bytes if self.limit == "max_memory" else 0}

    @property
    def amounts(self) -> str:
        """How much was used and how much was left, for people."""
        used = f"the task used {shown(self.used_bytes)}" if self.used_bytes else "what it used isn't known"
        return f"{used}, {self.where} had {shown(self.available_bytes)} of {shown(self.total_bytes)} left"

    @property
    def reason(self) -> str:
        """Why a process was killed, for people: the limit that it hit, and the amounts."""
        if self.limit == "max_memory":
            return f"killed at max_memory of its task type, {shown(self.max_bytes)}: {self.amounts}"
        return f"killed because {self.where} ran out of memory: {self.amounts}"


MEMORY_UNKNOWN = MemoryAtEnd()


def memory_at_end(counted: CgroupMemory | None, pressure: MemoryPressure, used_bytes: int) -> MemoryAtEnd:
    """Returns what is known when a process has ended that used `used_bytes`, by its cgroup and the host.

    The kernel's kills are counted for each cgroup. Without one they are counted where the worker is, and
    daemons such as systemd-oomd kill when the host is nearly full.
    """
    limit: MemoryLimit | None = None
    host = pressure.lowest()
    if counted is not None and counted.killed and counted.peak_bytes >= _AT_LIMIT * counted.limit_bytes > 0:
        limit, used_bytes = "max_memory", min(counted.peak_bytes, counted.limit_bytes)
    elif pressure.nearly_full() or (pressure.oom_killed() if counted is None else counted.killed):
        limit = host.limited_by
    return MemoryAtEnd(
        limit=limit,
        max_bytes=counted.limit_bytes if counted is not None else 0,
        used_bytes=used_bytes,
        available_bytes=host.available_bytes,
        total_bytes=host.memory_bytes,
        where=_WHERE[host.limited_by],
    )
