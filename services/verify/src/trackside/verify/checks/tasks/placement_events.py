"""The events that are about one placement of a task, and those of them that its worker writes."""

from typing import get_args

from trackside.contracts.tasks.tasks import (
    AttemptAdopted,
    AttemptEnded,
    MetricReported,
    ParametersRequested,
    ParametersTaken,
    ParametersWithheld,
    TaskAccepted,
    TaskAssigned,
    TaskContinued,
    TaskInterrupted,
    TaskPreemptionRequested,
    TaskRecallRequested,
    TaskRefused,
    TaskReturned,
    TaskStatusChanged,
)

WorkerEvent = (
    TaskAccepted
    | AttemptAdopted
    | TaskRefused
    | TaskReturned
    | TaskInterrupted
    | TaskStatusChanged
    | ParametersRequested
    | ParametersTaken
    | AttemptEnded
)
WORKER_EVENTS = frozenset(get_args(WorkerEvent))
ParametersEvent = ParametersRequested | ParametersWithheld | TaskContinued | ParametersTaken

PlacementEvent = (
    TaskAssigned
    | TaskAccepted
    | AttemptAdopted
    | TaskRefused
    | TaskReturned
    | TaskInterrupted
    | TaskStatusChanged
    | ParametersRequested
    | ParametersWithheld
    | TaskContinued
    | ParametersTaken
    | MetricReported
    | AttemptEnded
    | TaskRecallRequested
    | TaskPreemptionRequested
)
"""The events that name a placement."""
