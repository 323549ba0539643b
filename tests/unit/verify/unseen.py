"""The one-edit mutants of a log that no check can find, and why: all of them are of single fields."""

from collections.abc import Mapping
from enum import Enum


class Reason(Enum):
    """Why a changed field stays unseen."""

    TEXT = "free text"
    TIME = "a time"
    MEASUREMENT = "a measurement that nothing else has"
    NO_EFFECT = "an event without effect by design"


def _fields(reason: Reason, **messages: str) -> dict[str, Reason]:
    """Returns kinds of mutants by their name: messages with their fields."""
    return {
        f"field {message}.{name}": reason for message, names in messages.items() for name in names.split()
    }


UNSEEN: Mapping[str, Reason] = {
    **_fields(
        Reason.MEASUREMENT,
        # What a task reports in between, how its process went, and what it saved, only its worker knows.
        MetricReported="kind step value others",
        AttemptEnded="end error result exit_code peak_memory_bytes peak_cuda_memory_bytes memory_measure",
        ArtifactSaved="name kind size_bytes media_type step metadata",
        InstructionAcknowledged="ok detail",
        TaskReady="detail",
        # How far a service had read when it decided, and what a trigger saw then.
        TaskAssigned="seen",
        TaskStopRequested="seen",
        TrialsRequested="count",
        TriggerEvaluated="values",
        ScheduleWatched="key",
        TaskPreemptionRequested="by",
        # Why a worker, a tuner, an assessor or a stage could not go on.
        TaskRefused="code",
        SuggestionFailed="code",
        AssessmentFailed="rows failure trial code",
        StageBlocked="reason",
        # What the files of summaries have.
        SummaryFileIndexed="file end records fingerprint",
        SummaryFileQuarantined="code",
    ),
    **_fields(
        Reason.TIME,
        AttemptEnded="load_time_ms train_time_ms",
        ScheduleArmed="due_ms",
        TriggerEvaluated="evaluated_ms",
        SummaryFileQuarantined="again_at_ms",
    ),
    **_fields(
        Reason.TEXT,
        ParametersWithheld="reason",
        CommandRefused="message problems",
        DeployDecided="reason",
        StageEnded="reason message",
        StageBlocked="message",
        TaskUnschedulable="message",
        TaskRefused="message",
        TaskRecallRequested="reason",
        ModelUpdateFailed="message",
        SuggestionFailed="message traceback",
        AssessmentFailed="message traceback",
        SummaryFileQuarantined="message",
    ),
}
"""By kind of mutant. A kind is here if one of its mutants stays unseen: most of them are found elsewhere."""
