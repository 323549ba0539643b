"""Incremental learning: a job whose rounds train, evaluate and deploy a model while samples arrive."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.aggregates.rounds.job.deploy_messages import DatasetPlace, RoundModel
from trackside.aggregates.rounds.job.job_spec import JobSpec, StageName
from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json, is_absent
from trackside.contracts.tasks.artifacts import MAX_MODEL_VERSIONS, ArtifactReference
from trackside.contracts.tasks.tasks import Figure

JobReason = Annotated[str, Field(max_length=1_000)]
Range = tuple[int, int]
"""The samples from the first number to the second, which is not included."""


class JobStatus(StrEnum):
    """The states of a job; a deleted one never begins again."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    DELETED = "DELETED"


class StageState(StrEnum):
    """The states of the stage that a job is in, with the names that users of Sedna know."""

    WAITING = "Waiting"
    READY = "Ready"
    STARTING = "Starting"
    RUNNING = "Running"
    COMPLETED = "Completed"
    FAILED = "Failed"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CreateIncrementalJob(Command, JobSpec):
    """Asks for a job, under the stream id of the command."""


class UpdateIncrementalJob(Command):
    """Asks for another definition of a job, whole; what a round has begun with counts until it is over."""

    job: JobSpec


class PauseIncrementalJob(Command):
    """Asks a job to begin no stage; what runs continues, and so do its services."""

    reason: JobReason = ""


class ResumeIncrementalJob(Command):
    """Asks a job that is paused to continue."""


class DeleteIncrementalJob(Command):
    """Asks a job to end: what runs is stopped, its services, too. Its id stays taken, its files remain."""

    reason: JobReason = ""


class FireTrain(Command):
    """Asks for a round now, also if its trigger does not hold."""


class FireEval(Command):
    """Asks for the evaluation of the round now, also if its trigger does not hold."""


class FireDeploy(Command):
    """Asks for the decision whether the model of the round is deployed; with `force` it is."""

    force: bool = False


class ApproveDeploy(Command):
    """Approves a deployment that waits for a person. `actor` is who says so."""

    actor: str = Field(default="", max_length=200)


class RejectDeploy(Command):
    """Rejects a deployment that waits for a person."""

    reason: JobReason = ""
    actor: str = Field(default="", max_length=200)


class RollbackModel(Command):
    """Asks that a version that was live before is live again."""

    version: int = Field(ge=1, le=MAX_MODEL_VERSIONS)
    model: Identifier | None = None
    """Whose version it is; the job's model unless given, which the initial version may not be of."""
    reason: JobReason = ""


class ReportHardExamples(Command):
    """What an inference service outside of Trackside has counted since its last report."""

    service: Identifier
    inferences: int = Field(ge=0, le=2**53)
    hard: int = Field(ge=0, le=2**53)
    artifact: ArtifactReference | None = None


class IncrementalJobCreated(Event):
    """A job has begun, with the initial model live."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    job: JobSpec
    dataset: DatasetPlace
    initial: RoundModel
    initial_eval: RoundModel


class IncrementalJobUpdated(Event):
    """A job is defined so from its next round on. `change` counts what people changed of it, from 1."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    job: JobSpec
    dataset: DatasetPlace


class IncrementalJobPaused(Event):
    """A job begins no stage."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    reason: str = ""


class IncrementalJobResumed(Event):
    """A job that was paused continues."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int


class IncrementalJobDeleted(Event):
    """A job has ended; what is open of it is stopped."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    reason: str = ""


class SamplesAssigned(Event):
    """The samples `begin` to `end` of the dataset are divided: so many for training, the rest for evaluation.

    The share for training is a fraction such as `4/5`, `carry` what is left of the samples before: see
    `split`. They are within the first `size_bytes` of the dataset, all of which have the digest `sha256`;
    `metrics` are numbers that its watcher has computed of the newest ones, such as `drift`.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    begin: int
    end: int
    share: str
    carry: str
    train: int
    evaluation: int
    size_bytes: int
    sha256: str
    metrics: dict[str, Figure] = Field(default={}, exclude_if=is_absent)


class SeenMetric(_Part):
    """A number that a trigger has seen; without a value it was missing, for a `reason`."""

    value: Figure | None = Field(default=None, exclude_if=lambda value: value is None)
    reason: str = Field(default="", exclude_if=is_absent)


class TriggerEvaluated(Event):
    """The trigger of a stage was evaluated, at `evaluated_ms`, with the numbers that it saw.

    Written when its result is another one, or the stage begins (`fired`): by the trigger, or by a command.
    `evaluation` counts those of a job, from 1. Void if written before `due_ms`.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    stage: StageName
    evaluation: int
    round: int
    result: bool
    fired: bool
    values: dict[str, SeenMetric] = Field(default={}, exclude_if=is_absent)
    evaluated_ms: int
    due_ms: int | None = Field(default=None, exclude_if=is_absent)
    command_id: str = Field(default="", exclude_if=is_absent)


class ModelVersionSummary(_Part):
    """What was trained: its artifact, by which attempt of which task, and what is known of it."""

    artifact: ArtifactReference
    format: str = ""
    devices: list[Identifier] = Field(default=[], exclude_if=is_absent)
    stream: Identifier
    task: Identifier
    attempt: int
    metrics: dict[str, Figure] = Field(default={}, exclude_if=is_absent)


class SampleManifestWritten(Event):
    """The samples of a stage are in a file: `lines` of them, in the order of the dataset."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    stage: StageName
    round: int
    url: str
    sha256: str
    size_bytes: int
    lines: int


class RoundStarted(Event):
    """A round has begun: its samples and its base model are fixed. `number` counts from 1.

    `train` are the samples between two numbers that are for training; `evaluation` those of each version, the
    oldest first, that are not.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    number: int
    base: RoundModel
    train: Range
    evaluation: list[Range]


class StageBlocked(Event):
    """A stage can't continue, for a reason that is said once as long as it stays the same."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    stage: StageName
    round: int
    reason: str
    message: str = Field(default="", exclude_if=is_absent)


class ModelTrained(Event):
    """A round has trained a model: this asks for a version of the job's model."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    round: int
    model: Identifier
    version: ModelVersionSummary


class StageEnded(Event):
    """The stage of a round has ended: `Completed` or `Failed`, with what it has found.

    Train has its model, eval the metrics of the `trained` and of the `deployed` one.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    stage: StageName
    round: int
    status: StageState
    reason: str = Field(default="", exclude_if=is_absent)
    message: str = Field(default="", exclude_if=is_absent)
    model: RoundModel | None = Field(default=None, exclude_if=is_absent)
    metrics: dict[str, Json] = Field(default={}, exclude_if=is_absent)


class RoundEnded(Event):
    """A round is over. The samples of a failed one, `released`, go back to those that are for training."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    number: int
    status: Literal["completed", "failed"]
    stage: StageName
    deployed: bool
    reason: str = Field(default="", exclude_if=is_absent)
    released: Range | None = Field(default=None, exclude_if=is_absent)


def task_id(job_id: str, *parts: str | int) -> str:
    """Returns the id of a task or child of a job: its parts after the id of the job, with dots."""
    return ".".join((job_id, *(str(part) for part in parts)))
