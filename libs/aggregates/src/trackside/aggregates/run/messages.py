"""Runs of pipelines: steps that wait for each other, each with its end, until the run is over."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.aggregates.run.step_messages import TakenStep
from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json, is_absent
from trackside.contracts.tasks.resources import Priority, Timeout
from trackside.domain.pipelines.definition import MAX_ITEMS, MAX_STEPS, PipelineSpec, StepName, StepSpec


class RunStatus(StrEnum):
    """The states of a run. FAILING: a step has failed that ends the run; what is open is stopped first."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILING = "FAILING"
    ABORTING = "ABORTING"
    TIMING_OUT = "TIMING_OUT"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    ABORTED = "ABORTED"
    TIMED_OUT = "TIMED_OUT"


StepNames = Annotated[list[StepName], Field(min_length=1, max_length=MAX_STEPS)]
Indexes = Annotated[
    list[Annotated[int, Field(ge=0, lt=MAX_ITEMS)]], Field(min_length=1, max_length=MAX_ITEMS)
]
ReasonText = Annotated[str, Field(max_length=1_000)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class StepPatch(_Part):
    """What replaces parts of the definition of a step, from the next time that it begins.

    `parameters` and `inputs` are added to those of the step, and replace those of the same name.
    """

    parameters: Json = Field(default={}, exclude_if=is_absent)
    inputs: Json = Field(default={}, exclude_if=is_absent)
    queue: str | None = Field(default=None, exclude_if=is_absent)
    priority: Priority | None = Field(default=None, exclude_if=is_absent)
    queue_timeout_s: Timeout | None = Field(default=None, exclude_if=is_absent)
    run_timeout_s: Timeout | None = Field(default=None, exclude_if=is_absent)


Patch = Annotated[dict[StepName, StepPatch], Field(max_length=MAX_STEPS)]
"""Patches by the names of steps."""


class RunOrigin(_Part):
    """The pipeline that a run is of: its stream, and the version and number of the run there."""

    pipeline: Identifier
    version: int = Field(ge=1, le=2**53)
    number: int = Field(ge=1, le=2**53)
    schedules: list[str] = Field(default=[], max_length=1_000, exclude_if=is_absent)
    """The schedules that started it: itself, and the runs whose events started that one."""


class RunCopy(_Part):
    """The run that another one was made from, as it was after `offset`."""

    kind: Literal["rerun", "fork"]
    stream: Identifier
    offset: int = Field(ge=0, le=2**63 - 1)


TakenSteps = Annotated[dict[StepName, TakenStep], Field(max_length=MAX_STEPS)]
"""Steps of another run that are taken over, by their names."""


class StartPipelineRun(Command):
    """Asks for a run of a pipeline, under the stream id of the command. `overrides` patch single steps.

    Steps of `taken` are not run: they have succeeded in another run, which `copy_of` names.
    """

    pipeline: PipelineSpec
    parameters: Json = Field(default={})
    overrides: Patch = Field(default={})
    seed: int = Field(default=0, ge=0, le=2**53)
    use_cache: bool = Field(default=True)
    origin: RunOrigin | None = Field(default=None)
    copy_of: RunCopy | None = Field(default=None)
    taken: TakenSteps = Field(default={})


class PausePipelineRun(Command):
    """Asks a run to begin no more steps. With `running: return` its tasks give their devices back."""

    running: Literal["finish", "return"] = "finish"
    reason: ReasonText = ""


class ResumePipelineRun(Command):
    """Asks a run that is paused to continue."""


class AbortPipelineRun(Command):
    """Asks a run to begin no more steps and to end those that run."""

    reason: ReasonText = ""


class RetryFailedSteps(Command):
    """Asks a run that is over for its failed steps again: all, those named, or single indexes of some.

    Steps that have succeeded are kept, unless the patch changes them or a step before them.
    """

    steps: StepNames | None = None
    indexes: Annotated[dict[StepName, Indexes], Field(max_length=MAX_STEPS)] = Field(default={})
    patch: Patch = Field(default={})


class RestartFromStep(Command):
    """Asks a run that is over for these steps again, and for all that come after them."""

    steps: StepNames
    patch: Patch = Field(default={})


class SkipStep(Command):
    """Asks a run not to begin a step: those that need it are omitted."""

    step: StepName
    reason: ReasonText = ""


class AbortStep(Command):
    """Asks a run to end a step: its tasks or its child, all or one of its indexes."""

    step: StepName
    index: int | None = Field(default=None, ge=0, lt=MAX_ITEMS)
    reason: ReasonText = ""


class ApproveGate(Command):
    """Approves a gate, with its form filled in. `actor` is who says so."""

    step: StepName
    inputs: Json = Field(default={})
    actor: str = Field(default="", max_length=200)


class RejectGate(Command):
    """Rejects a gate."""

    step: StepName
    reason: ReasonText = ""
    actor: str = Field(default="", max_length=200)


class UpdatePipelineRun(Command):
    """Asks for other limits of a run; what is left out stays. Submitted tasks keep their priority."""

    timeout_s: Timeout | None = None
    concurrency: int | None = Field(default=None, ge=1, le=MAX_ITEMS)
    priority: Priority | None = None


class ArchiveRun(Command):
    """Asks that a run that is over can't be continued any more."""


class RunStarted(Event):
    """A run has begun. `pipeline` is compiled: the references in it are parsed.

    Its steps need all steps that their references and expressions name. `parameters` are those of the
    pipeline, with defaults filled in; `sha256` is the digest of the definition as it was given. The steps of
    `taken` have ended with it.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    pipeline: PipelineSpec
    sha256: str
    parameters: Json = Field(default={}, exclude_if=is_absent)
    overrides: Patch = Field(default={}, exclude_if=is_absent)
    seed: int = 0
    use_cache: bool = True
    origin: RunOrigin | None = Field(default=None, exclude_if=is_absent)
    copy_of: RunCopy | None = Field(default=None, exclude_if=is_absent)
    taken: TakenSteps = Field(default={}, exclude_if=is_absent)


class RunPaused(Event):
    """A run begins no more steps; `change` counts pauses, resumptions and updates from 1."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    running: Literal["finish", "return"] = "finish"
    reason: str = ""


class RunResumed(Event):
    """A run that was paused continues."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int


class RunUpdated(Event):
    """A run has these limits now."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    timeout_s: float | None = Field(default=None, exclude_if=is_absent)
    concurrency: int | None = Field(default=None, exclude_if=is_absent)
    priority: int | None = Field(default=None, exclude_if=is_absent)


class RunAbortRequested(Event):
    """A run begins no more steps and ends those that are open."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    reason: str = ""


class RunTimeLimitReached(Event):
    """A run has taken as long as it may; void if written before `due_ms`."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    due_ms: int


class RunRevived(Event):
    """A run that was over continues: the steps of `reset` begin again, of some only these `indexes`.

    `revival` counts from 1. It is also the generation of the steps that are reset. `patch` is what the
    command changes, `steps` are these steps with it, compiled.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    revival: int
    reset: list[str]
    indexes: dict[str, list[int]] = Field(default={}, exclude_if=is_absent)
    patch: Patch = Field(default={}, exclude_if=is_absent)
    steps: list[StepSpec] = Field(default=[], exclude_if=is_absent)


class RunEnded(Event):
    """A run is over; it can be continued until it is archived.

    `causes` are the steps for which it failed. `outputs` are those of its pipeline, as far as they have a
    value; `models` is what is known of those that are trained models, the output `model` first.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    revival: int = 0
    status: RunStatus
    causes: list[str] = Field(default=[], exclude_if=is_absent)
    outputs: Json = Field(default={}, exclude_if=is_absent)
    models: list[Json] = Field(default=[], exclude_if=is_absent)


class RunArchived(Event):
    """A run can't be continued any more; void if before `due_ms`, where a time limit is the reason."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str = Field(default="", exclude_if=is_absent)
    due_ms: int | None = Field(default=None, exclude_if=is_absent)
