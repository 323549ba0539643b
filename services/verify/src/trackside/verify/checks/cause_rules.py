"""What may be the cause of an event: the table that INV-18 checks, by type of event."""

from collections.abc import Mapping
from typing import NamedTuple

from trackside.aggregates.registry import AGGREGATES
from trackside.contracts.envelope.message import Command, Message
from trackside.contracts.fleet.draining import DeviceDrained, DeviceResumed, DrainDevice, ResumeDevice
from trackside.contracts.streams.children import ChildEnded
from trackside.contracts.streams.commands import CommandAccepted, CommandReceived, CommandRefused
from trackside.contracts.streams.forgetting import ForgetStream, StreamForgotten
from trackside.contracts.streams.labels import AnnotateStream, StreamAnnotated
from trackside.contracts.streams.parking import RecordSkipped, SkipRecord
from trackside.contracts.streams.watches import TasksWatched
from trackside.contracts.tasks.artifacts import (
    ArtifactSaved,
    ArtifactsForgotten,
    ForgetArtifacts,
    TaskResumed,
)
from trackside.contracts.tasks.instructions import (
    InstructionAcknowledged,
    InstructionGiven,
    InstructTask,
    TaskReady,
)
from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnded,
    MetricReported,
    ParametersRequested,
    ParametersTaken,
    ParametersWithheld,
    TaskAccepted,
    TaskAssigned,
    TaskHeld,
    TaskInterrupted,
    TaskPreemptionRequested,
    TaskRecallRequested,
    TaskRefused,
    TaskReleased,
    TaskReturned,
    TaskStatusChanged,
    TaskSubmitted,
    TaskUnschedulable,
    TimeLimitReached,
)

ANSWERS: frozenset[type[Message]] = frozenset({CommandAccepted, CommandRefused})
PLACES_A_TASK: frozenset[type[Message]] = frozenset(
    {TaskSubmitted, AttemptEnded, TaskRefused, TaskReturned, TaskHeld, TaskReleased, InstructionGiven}
)
"""What a task in the queue was changed by last."""
OF_ONE_TASK: frozenset[type[Message]] = frozenset(
    {
        TaskAssigned,
        TaskUnschedulable,
        TaskPreemptionRequested,
        TaskRecallRequested,
        TimeLimitReached,
        TaskAccepted,
        AttemptAdopted,
        TaskRefused,
        TaskReturned,
        TaskInterrupted,
        TaskStatusChanged,
        ParametersRequested,
        ParametersWithheld,
        ParametersTaken,
        MetricReported,
        ArtifactSaved,
        TaskResumed,
        InstructionAcknowledged,
        TaskReady,
        AttemptEnded,
    }
)
"""The events that rest on an earlier event of their own task."""
COMMANDED: Mapping[type[Message], tuple[type[Command], ...]] = {
    InstructionGiven: (InstructTask,),
    ArtifactsForgotten: (ForgetArtifacts,),
    StreamAnnotated: (AnnotateStream,),
    DeviceDrained: (DrainDevice,),
    DeviceResumed: (ResumeDevice,),
    RecordSkipped: (SkipRecord,),
    StreamForgotten: (ForgetStream,),
}
"""The commands that lead to events of no aggregate; those of aggregates are in their `causes.py`."""


class CauseRule(NamedTuple):
    """What an event may rest on.

    `commands` are the names of commands that lead to it, without their versions. It `decides` if it also
    follows from events that are no commands; `elsewhere`: of another stream, too; `one_task`: only of its own
    task. `kinds` are the types of events that it follows from, None: any. `free`: it may rest on anything.
    """

    commands: frozenset[str] = frozenset()
    decides: bool = True
    elsewhere: bool = False
    one_task: bool = False
    kinds: frozenset[type[Message]] | None = None
    free: bool = False


def command_name(wire_type: str) -> str:
    """Returns a wire type without its version: a log may have commands of several releases."""
    return wire_type.rpartition(".v")[0] or wire_type


def rule_of(kind: type[Message]) -> CauseRule:
    """Returns what an event of a type may rest on."""
    if kind is CommandReceived:
        return CauseRule(elsewhere=True)
    if kind in ANSWERS:
        return CauseRule(decides=False)
    tables = [each.causes for each in AGGREGATES.types]
    commands: list[type[Command]] = [*COMMANDED.get(kind, ())]
    for table in tables:
        commands += table.commanded.get(kind, ())
    return CauseRule(
        commands=frozenset(command_name(each.wire_type()) for each in commands),
        decides=not commands or kind is InstructionGiven or any(kind in table.decided for table in tables),
        elsewhere=kind in (ChildEnded, TasksWatched) or any(kind in table.follows_others for table in tables),
        one_task=kind in OF_ONE_TASK,
        kinds=PLACES_A_TASK if kind is TaskAssigned else None,
        free=_has_no_table(kind) or any(kind in table.follows_any for table in tables),
    )


def _has_no_table(kind: type[Message]) -> bool:
    """Returns whether an event is of an aggregate that does not say which commands lead to its events."""
    aggregate = AGGREGATES.by_event.get(kind)
    return aggregate is not None and not aggregate.causes.commanded
