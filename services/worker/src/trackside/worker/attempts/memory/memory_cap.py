"""The most host memory that an attempt may use: that of its type, or its estimate times a factor. Pure."""

from dataclasses import dataclass
from typing import Literal

from trackside.contracts.envelope.memory import shown
from trackside.worker.catalogue.task_catalogue import TaskType


@dataclass(frozen=True, slots=True)
class MemoryCap:
    """The most host memory that an attempt may use, in bytes, and which limit that is.

    `reserved_bytes` is what is reserved for it, `factor` how many times as much it may use; 0 if that is not
    limited. `exceeded_bytes` is what it used when the worker killed it for that, 0 if it didn't.
    """

    limit: Literal["max_memory", "estimate"]
    size_bytes: int
    reserved_bytes: int = 0
    factor: float = 0.0
    exceeded_bytes: int = 0

    @property
    def described(self) -> str:
        """The limit as a part of a sentence for people."""
        if self.limit == "max_memory":
            return f"max_memory of its task type, {shown(self.size_bytes)}"
        return (
            f"{shown(self.size_bytes)}, {self.factor:g} times its estimate of {shown(self.reserved_bytes)} "
            "(`enforce: estimate` of its task type)"
        )

    def is_exceeded_by(self, used_bytes: int) -> bool:
        """Returns whether an attempt that uses so much is to be killed: if its estimate is enforced."""
        return self.factor > 0 and used_bytes > self.size_bytes


def memory_cap(task_type: TaskType, reserved_bytes: int, exceeded_bytes: int = 0) -> MemoryCap | None:
    """Returns the cap of an attempt for which so much is reserved; None if it may use any amount."""
    allowed = task_type.max_memory_bytes
    factor = task_type.enforce_factor if reserved_bytes else None
    if factor is None:
        return None if allowed is None else MemoryCap("max_memory", allowed)
    estimated = int(reserved_bytes * factor)
    if allowed is not None and allowed <= estimated:
        return MemoryCap("max_memory", allowed, reserved_bytes, factor, exceeded_bytes)
    return MemoryCap("estimate", estimated, reserved_bytes, factor, exceeded_bytes)
