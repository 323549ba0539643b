"""What a pass of the scheduler may decide about a task. Pure."""

from dataclasses import dataclass

from trackside.domain.task import Task
from trackside.scheduler.placement import Candidate


@dataclass(frozen=True, slots=True)
class Assign:
    """A task gets a place, or the one behind a running task."""

    task: Task
    candidate: Candidate
    behind: bool = False


@dataclass(frozen=True, slots=True)
class Preempt:
    """A running task makes room for another one."""

    task: Task
    by: str


@dataclass(frozen=True, slots=True)
class Recall:
    """A task that waits behind another one is asked back."""

    task: Task
    reason: str


@dataclass(frozen=True, slots=True)
class MarkUnschedulable:
    """A task can't run on any worker that is there."""

    task: Task
    message: str


Action = Assign | Preempt | Recall | MarkUnschedulable
