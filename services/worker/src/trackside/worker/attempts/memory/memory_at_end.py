"""What is known about memory when a task has ended: which limit it hit, what it used, what was left."""

from dataclasses import dataclass

from trackside.contracts.envelope.memory import shown
from trackside.contracts.tasks.resources import MemoryLimit
from trackside.worker.attempts.memory.cgroups import CgroupMemory
from trackside.worker.attempts.memory.memory_cap import MemoryCap
from trackside.worker.attempts.memory.memory_pressure import MemoryPressure

_AT_LIMIT = 0.95
"""Fraction of its limit that a cgroup has reached when the kernel kills in it for that limit: memory is
charged to it in batches.
"""
_ADVICE = "; request what it needs with estimate_memory, or raise enforce_factor of its task type"
_WHERE = {"host": "the host", "cgroup": "the worker's own cgroup"}


@dataclass(frozen=True, slots=True)
class MemoryAtEnd:
    """What is known about memory, in bytes; 0 if unknown.

    `limit` is the one that a process must have hit if it was killed; None if memory was left. `cap` is what
    the task may use, `used_bytes` its peak. `where`, the host or the worker's own cgroup, had
    `available_bytes` of `total_bytes` left.
    """

    limit: MemoryLimit | None = None
    cap: MemoryCap | None = None
    used_bytes: int = 0
    available_bytes: int = 0
    total_bytes: int = 0
    where: str = _WHERE["host"]

    @property
    def hit(self) -> dict[str, object]:
        """The limit that was hit, as fields of AttemptEnded."""
        cap = self._cap_hit
        return {"limit": self.limit, "limit_bytes": 0 if cap is None else cap.size_bytes}

    @property
    def amounts(self) -> str:
        """How much was used and how much was left, for people."""
        used = f"the task used {shown(self.used_bytes)}" if self.used_bytes else "what it used isn't known"
        return f"{used}, {self.where} had {shown(self.available_bytes)} of {shown(self.total_bytes)} left"

    @property
    def reason(self) -> str:
        """Why a process was killed, for people: the limit that it hit, and the amounts."""
        cap = self._cap_hit
        if cap is None:
            return f"killed because {self.where} ran out of memory: {self.amounts}"
        advice = _ADVICE if cap.limit == "estimate" else ""
        return f"killed at {cap.described}: {self.amounts}{advice}"

    @property
    def _cap_hit(self) -> MemoryCap | None:
        return self.cap if self.cap is not None and self.cap.limit == self.limit else None


MEMORY_UNKNOWN = MemoryAtEnd()


def memory_at_end(
    counted: CgroupMemory | None, pressure: MemoryPressure, used_bytes: int, cap: MemoryCap | None
) -> MemoryAtEnd:
    """Returns what is known when a process has ended that used `used_bytes`, by its cgroup and the host.

    The kernel's kills are counted for each cgroup. Without one they are counted where the worker is, and
    daemons such as systemd-oomd kill when the host is nearly full.
    """
    limit: MemoryLimit | None = None
    host = pressure.lowest()
    if cap is not None and cap.exceeded_bytes:
        limit, used_bytes = cap.limit, max(used_bytes, cap.exceeded_bytes)
    elif cap is not None and counted is not None and _is_at_limit(counted):
        limit, used_bytes = cap.limit, min(counted.peak_bytes, counted.limit_bytes)
    elif pressure.nearly_full() or (pressure.oom_killed() if counted is None else counted.killed):
        limit = host.limited_by
    return MemoryAtEnd(
        limit=limit,
        cap=cap,
        used_bytes=used_bytes,
        available_bytes=host.available_bytes,
        total_bytes=host.memory_bytes,
        where=_WHERE[host.limited_by],
    )


def _is_at_limit(counted: CgroupMemory) -> bool:
    return counted.killed and counted.peak_bytes >= _AT_LIMIT * counted.limit_bytes > 0
