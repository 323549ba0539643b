"""How much memory a task gets: its own estimate, one learned from tasks of its type, or a default. Pure.

How long tasks of a type take is learned in the same way.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.domain.tasks.retries import HEADROOM
from trackside.domain.tasks.task import Attempt
from trackside.scheduler.hosts.requirements import Requirements

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


@dataclass(slots=True)
class TaskDurations:
    """How long the newest finished attempts of each task type had their device, in ms."""

    newest: dict[str, deque[int]] = field(default_factory=dict)

    def learn(self, task_type: str, attempt: Attempt) -> None:
        """Adds the last attempt of a task, if it finished."""
        if attempt.end is AttemptEnd.FINISHED and attempt.accepted_ms:
            took_ms = max(0, attempt.ended_ms - attempt.accepted_ms)
            self.newest.setdefault(task_type, deque(maxlen=LEARNED_ATTEMPTS)).append(took_ms)

    def expected_ms(self, task_type: str) -> int | None:
        """Returns the longest of them, since none should wait for a long one; None if nothing is known."""
        return max(self.newest.get(task_type, ()), default=None)


@dataclass(frozen=True, slots=True)
class MemoryOffer:
    """The most that a task may have on one worker, bytes; 0 if it is neither limited nor known.

    `cuda` is that of each GPU, None on CPU slots.
    """

    memory: int
    cuda: int | None = None


def largest_offer(sizes: Collection[int]) -> int:
    """Returns the largest of some offers, bytes; 0 if one of them is not limited, or if there is none."""
    return max(sizes) if sizes and all(sizes) else 0


def memory_demand(
    requirements: Requirements,
    peaks: MemoryPeaks,
    defaults: tuple[int, int],
    offers: Collection[MemoryOffer],
    largest_limit_bytes: int = 0,
) -> MemoryDemand:
    """Returns the memory that a task needs; `defaults` are bytes on the host and on a GPU.

    Numbers that no user gave are cut to what a worker offers, so that the task can run there, alone if need
    be: first the GPU's, then the host's where there is such a GPU.
    """
    own = (requirements.memory_bytes, requirements.cuda_memory_bytes)
    raised = (requirements.raised_memory_bytes, requirements.raised_cuda_memory_bytes)
    learned = (peaks.learned_memory(requirements.task_type), peaks.learned_cuda(requirements.task_type))
    wanted = [_wanted(requirements, own[at], learned[at], defaults[at], raised[at]) for at in (0, 1)]
    cuda = _cut(wanted[1], own[1], [offer.cuda for offer in offers if offer.cuda is not None])
    fitting = [offer.memory for offer in offers if offer.cuda is None or cuda.within(offer.cuda) is not None]
    return MemoryDemand(_cut(wanted[0], own[0], fitting), cuda, largest_limit_bytes)


def _wanted(
    requirements: Requirements, own: int | None, learned: int, default: int, raised: int
) -> MemoryEstimate:
    if own is not None:
        estimate = MemoryEstimate(own, requirements.estimated_by)
    else:
        estimate = MemoryEstimate(learned, "learned") if learned else MemoryEstimate(default, "default")
    return MemoryEstimate(raised, "raised") if raised > estimate.size_bytes else estimate


def _cut(estimate: MemoryEstimate, own: int | None, offered: Collection[int]) -> MemoryEstimate:
    largest = largest_offer(offered)
    if estimate.is_user_given or not 0 < largest < estimate.size_bytes:
        return estimate
    return MemoryEstimate(max(largest, own or 0), estimate.source)
