"""What a scheduling pass may decide about a task. Pure."""

from dataclasses import dataclass

from trackside.domain.tasks.task import Task
from trackside.scheduler.placing.placement import Candidate


@dataclass(frozen=True, slots=True)
class Assign:
    """Assigns a task to devices; `behind`: after the task that runs there."""

    task: Task
    candidate: Candidate
    behind: bool = False


@dataclass(frozen=True, slots=True)
class Preempt:
    """Stops a running task to make room for the task `by`."""

    task: Task
    by: str


@dataclass(frozen=True, slots=True)
class Recall:
    """Takes back a task that was placed after a running one."""

    task: Task
    reason: str


@dataclass(frozen=True, slots=True)
class MarkUnschedulable:
    """A task that no present worker can ever run."""

    task: Task
    message: str


Action = Assign | Preempt | Recall | MarkUnschedulable
