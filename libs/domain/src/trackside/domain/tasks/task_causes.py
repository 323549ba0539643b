"""Which events of a task later decisions about it rest on."""

from trackside.contracts.envelope.message import Message
from trackside.contracts.tasks.artifacts import ArtifactSaved, TaskResumed
from trackside.contracts.tasks.instructions import InstructionAcknowledged, TaskReady
from trackside.contracts.tasks.tasks import (
    MetricReported,
    TaskHeld,
    TaskPreemptionRequested,
    TaskStatusChanged,
    TaskStopRequested,
    TaskUnschedulable,
    TimeLimitReached,
)
from trackside.domain.tasks.task import Task

_NO_CHANGE = frozenset(
    {TaskStatusChanged, TaskUnschedulable, ArtifactSaved, TaskResumed, TaskReady, InstructionAcknowledged}
)
_ASK_FOR_ITS_END = frozenset({TaskStopRequested, TaskPreemptionRequested, TimeLimitReached, TaskHeld})


def note(task: Task, kind: type[Message], offset: int) -> None:
    """Keeps the offset of an applied event, if decisions may name it as their cause."""
    if kind is MetricReported:
        task.reported_at = offset
    elif kind not in _NO_CHANGE:
        task.changed_at = offset
        if kind in _ASK_FOR_ITS_END:
            task.asked_at = offset
