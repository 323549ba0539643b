"""Deployments of a job's models: the decision, its targets, what each of them has said."""

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, Event, Json, is_absent
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.contracts.tasks.tasks import Figure


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RoundModel(_Part):
    """A model that a round works with: a version of the job's model or another one, and its bytes."""

    model: Identifier
    version: int
    artifact: ArtifactReference
    format: str = Field(default="file", max_length=100)


class DatasetPlace(_Part):
    """Where the samples of a job are, and how they are read."""

    url: str
    format: str
    credential: Identifier | None = Field(default=None, exclude_if=is_absent)


class ConditionResult(_Part):
    """What a condition of a deployment has seen."""

    metric: str
    operator: str
    threshold: float
    value: Figure | None = Field(default=None, exclude_if=lambda value: value is None)
    holds: bool
    reason: str = Field(default="", exclude_if=is_absent)


class DeployDecided(Event):
    """Whether the model of a round is deployed, and why: the metrics of both models, and their differences.

    With `approval` a person decides, too.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    round: int
    deploy: bool
    reason: str
    trained: Json = Field(default={}, exclude_if=is_absent)
    deployed: Json = Field(default={}, exclude_if=is_absent)
    deltas: Json = Field(default={}, exclude_if=is_absent)
    conditions: list[ConditionResult] = Field(default=[], exclude_if=is_absent)
    approval: bool = Field(default=False, exclude_if=lambda value: value is False)
    command_id: str = Field(default="", exclude_if=is_absent)


class DeployApproved(Event):
    """A person has approved the deployment of a round."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    round: int
    actor: str = ""


class DeployRejected(Event):
    """A person has rejected the deployment of a round, or none has decided before `due_ms`."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str = Field(default="", exclude_if=is_absent)
    round: int
    actor: str = Field(default="", exclude_if=is_absent)
    reason: str = Field(default="", exclude_if=is_absent)
    due_ms: int | None = Field(default=None, exclude_if=is_absent)


class ModelUpdatePublished(Event):
    """These targets are to have a version: `serve.NAME.REPLICA` of services, `copy` and `config` of files.

    `update` counts from 1, and replaces the one before. `cause` is the round that it is of, the rollback, or
    the failed update after which the version before is live again.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    update: int
    cause: Literal["round", "rollback", "withdrawal"]
    round: int | None = Field(default=None, exclude_if=is_absent)
    model: RoundModel
    targets: list[str]


class ModelCopied(Event):
    """The bytes of an update are at a URL, and were read back: of the model, or of `model_config.json`."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    update: int
    target: str
    url: str
    sha256: str


class ModelUpdateConfirmed(Event):
    """A target has the model of an update: it has said its digest."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    update: int
    target: str
    sha256: str


class ModelUpdateFailed(Event):
    """A target couldn't take the model of an update, and has the one before; `failure` counts its tries.

    `instruction` is the number of the one that asked a service for it.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    update: int
    target: str
    failure: int
    instruction: int = Field(default=0, exclude_if=is_absent)
    message: str


class ModelUpdateTimedOut(Event):
    """Targets have not confirmed an update in time. Void if written before `due_ms`."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    update: int
    targets: list[str]
    due_ms: int


class ModelDeployed(Event):
    """A version is live: every target of its update has confirmed it."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    update: int
    model: Identifier
    version: int
    sha256: str


class ModelRolledBack(Event):
    """A version that was live before is to be live again; its update follows in this decision."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    before: RoundModel
    model: RoundModel
    reason: str = ""


class ConfigRemovalEnded(Event):
    """The folder below `config` of a job that was deleted is removed, or stays, and why.

    It stays after `tries` failures, or if it isn't removed in time. Void with a `due_ms` that is not reached.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    url: str
    removed: bool
    tries: int
    due_ms: int | None = Field(default=None, exclude_if=is_absent)
    message: str = Field(default="", exclude_if=is_absent)


class HardExamplesReported(Event):
    """What a service has counted in a window; `window` counts those of a service from 1."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    service: str
    window: int
    inferences: int
    hard: int
    attempt: int = 0
    placement: int = 0
    artifact: ArtifactReference | None = Field(default=None, exclude_if=is_absent)
    command_id: str = Field(default="", exclude_if=is_absent)
