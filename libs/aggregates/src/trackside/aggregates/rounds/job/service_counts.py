"""What the processes of an inference service count, and how much of that was not reported yet. Pure."""

from dataclasses import dataclass
from typing import Any

from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.domain.tasks.task import Task

HARD_EXAMPLES = "hard-examples"
"""The name of the artifacts in which services save hard examples."""


@dataclass(slots=True)
class ServiceCounts:
    """What a service has counted."""

    windows: int = 0
    """How many windows of counts it has reported."""
    inferences: int = 0
    """How many inferences it has counted in all."""
    hard: int = 0
    """How many of them were hard examples."""


@dataclass(slots=True)
class ProcessCounts:
    """What a process of a service has counted in all."""

    attempt: int
    """The number of its attempt."""
    placement: int
    """The placement of that."""
    inferences: int
    """How many inferences it had counted."""
    hard: int
    """How many of them were hard examples."""
    artifact: ArtifactReference | None = None
    """The newest artifact with hard examples that its task has saved; None without one."""


def unreported(task: Task, counted: tuple[int, int], counted_by: tuple[int, int]) -> ProcessCounts | None:
    """Returns what a process of a service has said that it has counted, if not all of it was reported.

    `counted` are the inferences and hard examples that were reported of the attempt and placement
    `counted_by`. Of several processes it is the oldest one: a task begins another one when one ends.
    """
    saved = task.artifacts.get(HARD_EXAMPLES)
    artifact = None if saved is None else saved.reference
    for attempt in task.attempts:
        inferences, hard = (_number(attempt.ready.get(name)) for name in ("inferences", "hard"))
        counts = ProcessCounts(attempt.number, attempt.placement, inferences, hard, artifact)
        if new_counts(counts, counted, counted_by) is not None:
            return counts
    return None


def new_counts(
    counts: ProcessCounts, counted: tuple[int, int], counted_by: tuple[int, int]
) -> tuple[int, int] | None:
    """Returns the inferences and hard examples that were not reported yet; None without any."""
    by = (counts.attempt, counts.placement)
    before = counted if by == counted_by else (0, 0)
    new, hard = counts.inferences - before[0], counts.hard - before[1]
    return None if by < counted_by or new <= 0 or not 0 <= hard <= new else (new, hard)


def _number(given: Any) -> int:
    return given if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < 2**53 else 0
