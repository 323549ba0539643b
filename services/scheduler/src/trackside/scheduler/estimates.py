"""How much memory a task shall have: its own word, what others of its type used, or a default. Pure."""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from trackside.contracts.tasks import AttemptEnd
from trackside.domain.memory import HEADROOM
from trackside.domain.task import Attempt
from trackside.scheduler.requirements import Requirements

By = Literal["task", "group", "learned", "default", "raised"]
KEPT_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of memory, and who says so."""

    size_bytes: int
    by: By

    @property
    def is_said(self) -> bool:
        """Says whether a user gave it, for the task or its group: it isn't cut then."""
        return self.by in ("task", "group")


@dataclass(frozen=True, slots=True)
class Want:
    """The memory that a task wants: on the host in all, and on each device that is a GPU."""

    memory: Amount
    cuda: Amount

    def estimated_by(self, with_cuda: bool) -> By:
        """Says where the numbers come from: the strongest of the two sources."""
        found = {self.memory.by, self.cuda.by} if with_cuda else {self.memory.by}
        for by in ("raised", "task", "group", "learned"):
            if by in found:
                return by
        return "default"


@dataclass(slots=True)
class Peaks:
    """The most that the newest finished attempts of each task type have used."""

    memory: dict[str, deque[int]] = field(default_factory=dict)
    cuda: dict[str, deque[int]] = field(default_factory=dict)

    def learn(self, task_type: str, attempt: Attempt) -> bool:
        """Takes in how an attempt went; says whether estimates of its type are others now."""
        if attempt.end is not AttemptEnd.FINISHED:
            return False
        before = (self.learned_memory(task_type), self.learned_cuda(task_type))
        self.add(task_type, attempt.peak_memory_bytes, attempt.peak_cuda_memory_bytes)
        return before != (self.learned_memory(task_type), self.learned_cuda(task_type))

    def add(self, task_type: str, memory: int, cuda: int) -> None:
        """Takes in what a finished attempt used, bytes; 0 for what isn't known."""
        for kept, peak in ((self.memory, memory), (self.cuda, cuda)):
            if peak > 0:
                kept.setdefault(task_type, deque(maxlen=KEPT_ATTEMPTS)).append(peak)

    def learned_memory(self, task_type: str) -> int:
        """Gives the estimate of host memory for a type, 0 if nothing is known."""
        return int(max(self.memory.get(task_type, ()), default=0) * HEADROOM)

    def learned_cuda(self, task_type: str) -> int:
        """Gives the estimate of memory on a GPU for a type, 0 if nothing is known."""
        return int(max(self.cuda.get(task_type, ()), default=0) * HEADROOM)


@dataclass(frozen=True, slots=True)
class Most:
    """The largest host and the largest GPU that a task could get, bytes; 0 if unknown."""

    memory: int = 0
    cuda: int = 0


def want_of(requirements: Requirements, peaks: Peaks, defaults: tuple[int, int], most: Most) -> Want:
    """Gives what a task wants; `defaults` are bytes on the host and on a GPU.

    What the user didn't say is cut to the largest there is: there the task runs alone.
    """
    learned = (peaks.learned_memory(requirements.task_type), peaks.learned_cuda(requirements.task_type))
    return Want(
        memory=_amount(
            requirements,
            requirements.memory,
            learned[0],
            defaults[0],
            requirements.raised_memory,
            most.memory,
        ),
        cuda=_amount(
            requirements, requirements.cuda, learned[1], defaults[1], requirements.raised_cuda, most.cuda
        ),
    )


def _amount(
    requirements: Requirements, own: int | None, learned: int, default: int, raised: int, most: int
) -> Amount:
    if own is not None:
        found = Amount(own, requirements.estimated_by)
    else:
        found = Amount(learned, "learned") if learned else Amount(default, "default")
    if raised > found.size_bytes:
        found = Amount(raised, "raised")
    if not found.is_said and 0 < most < found.size_bytes:
        at_least = 0 if own is None else own
        found = Amount(max(most, at_least), found.by)
    return found
