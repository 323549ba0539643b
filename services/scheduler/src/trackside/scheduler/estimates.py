"""How much memory a task gets: its own estimate, one learned from tasks of its type, or a default. Pure."""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from trackside.contracts.tasks import AttemptEnd
from trackside.domain.reservation_growth import HEADROOM
from trackside.domain.task import Attempt
from trackside.scheduler.requirements import Requirements

EstimateSource = Literal["task", "group", "learned", "default", "raised"]
LEARNED_ATTEMPTS = 20
"""How many of the newest finished attempts of a task type are learned from."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """An amount of memory, and where the number comes from."""

    size_bytes: int
    source: EstimateSource

    @property
    def is_user_given(self) -> bool:
        """Whether a user gave it, for the task or its group; then it is never cut."""
        return self.source in ("task", "group")

    def within(self, limit_bytes: int) -> int | None:
        """Returns what a task requests where it may have so much (0: any), bytes; None if it needs more.

        A default is cut: it isn't known that the task needs as much.
        """
        if limit_bytes == 0 or self.size_bytes <= limit_bytes:
            return self.size_bytes
        return limit_bytes if self.source == "default" else None


@dataclass(frozen=True, slots=True)
class MemoryDemand:
    """The memory that a task needs: on the host in total, and on each of its GPUs.

    `largest_limit_bytes` is the most memory that any worker allows, 0 if one of them allows any.
    """

    memory: MemoryEstimate
    cuda: MemoryEstimate
    largest_limit_bytes: int = 0

    def estimated_by(self, with_cuda: bool) -> EstimateSource:
        """Returns the source of the numbers: the stronger one if they differ."""
        estimate = {self.memory.source, self.cuda.source} if with_cuda else {self.memory.source}
        for source in ("raised", "task", "group", "learned"):
            if source in estimate:
                return source
        return "default"


@dataclass(slots=True)
class MemoryPeaks:
    """The peak memory of the newest finished attempts of each task type, bytes."""

    memory: dict[str, deque[int]] = field(default_factory=dict)
    cuda: dict[str, deque[int]] = field(default_factory=dict)

    def learn(self, task_type: str, attempt: Attempt) -> bool:
        """Adds the peaks of a task's last attempt, if it finished; returns whether the estimates changed.

        What failed or was stopped has used less than such a task needs, or more.
        """
        if attempt.end is not AttemptEnd.FINISHED:
            return False
        before = (self.learned_memory(task_type), self.learned_cuda(task_type))
        self.add(task_type, attempt.peak_memory_bytes, attempt.peak_cuda_memory_bytes)
        return before != (self.learned_memory(task_type), self.learned_cuda(task_type))

    def add(self, task_type: str, memory: int, cuda: int) -> None:
        """Adds the peaks of a finished attempt, bytes; 0 if unknown."""
        for peaks_by_type, peak in ((self.memory, memory), (self.cuda, cuda)):
            if peak > 0:
                peaks_by_type.setdefault(task_type, deque(maxlen=LEARNED_ATTEMPTS)).append(peak)

    def learned_memory(self, task_type: str) -> int:
        """Returns the learned host memory of a task type, bytes; 0 if nothing is known."""
        return int(max(self.memory.get(task_type, ()), default=0) * HEADROOM)

    def learned_cuda(self, task_type: str) -> int:
        """Returns the learned GPU memory of a task type, bytes; 0 if nothing is known."""
        return int(max(self.cuda.get(task_type, ()), default=0) * HEADROOM)


@dataclass(frozen=True, slots=True)
class LargestMemory:
    """The most that a task could get on a host and on a GPU, bytes; 0 if unknown.

    `limit` is the most memory of a host that any worker allows, also one that is gone for a short time; 0 if
    it is neither limited nor known for one of them.
    """

    memory: int = 0
    cuda: int = 0
    limit: int = 0


def memory_demand(
    requirements: Requirements, peaks: MemoryPeaks, defaults: tuple[int, int], largest: LargestMemory
) -> MemoryDemand:
    """Returns the memory that a task needs; `defaults` are bytes on the host and on a GPU.

    Numbers that no user gave are cut to the most that a worker allows, or to the largest host or GPU: there
    the task runs alone.
    """
    learned = (peaks.learned_memory(requirements.task_type), peaks.learned_cuda(requirements.task_type))
    return MemoryDemand(
        memory=_estimate(
            requirements,
            requirements.memory_bytes,
            learned[0],
            defaults[0],
            requirements.raised_memory_bytes,
            largest.memory,
        ),
        cuda=_estimate(
            requirements,
            requirements.cuda_memory_bytes,
            learned[1],
            defaults[1],
            requirements.raised_cuda_memory_bytes,
            largest.cuda,
        ),
        largest_limit_bytes=largest.limit,
    )


def _estimate(
    requirements: Requirements, own: int | None, learned: int, default: int, raised: int, largest: int
) -> MemoryEstimate:
    if own is not None:
        estimate = MemoryEstimate(own, requirements.estimated_by)
    else:
        estimate = MemoryEstimate(learned, "learned") if learned else MemoryEstimate(default, "default")
    if raised > estimate.size_bytes:
        estimate = MemoryEstimate(raised, "raised")
    if not estimate.is_user_given and 0 < largest < estimate.size_bytes:
        at_least = 0 if own is None else own
        estimate = MemoryEstimate(max(largest, at_least), estimate.source)
    return estimate
