"""Runs of pipelines: steps that wait for each other, each with its end, until the run is over."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.artifacts import ArtifactReference, CheckpointReference
from trackside.contracts.ids import Identifier
from trackside.contracts.message import DISPATCHER, Command, Event, Json, is_absent
from trackside.contracts.resources import Priority, Timeout
from trackside.domain.pipelines.definition import MAX_ITEMS, MAX_STEPS, PipelineSpec, StepName


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


class StepState(StrEnum):
    """The states of a step. Skipped: it is not wanted; omitted: a step that it needs has not succeeded."""

    PENDING = "pending"
    READY = "ready"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    CACHED = "cached"
    FAILED = "failed"
    ABORTED = "aborted"
    TIMED_OUT = "timed_out"
    LOST = "lost"
    SKIPPED = "skipped"
    OMITTED = "omitted"


SUCCESSES = frozenset({StepState.SUCCEEDED, StepState.CACHED})
FAILURES = frozenset({StepState.FAILED, StepState.ABORTED, StepState.TIMED_OUT, StepState.LOST})
ENDED = frozenset({*SUCCESSES, *FAILURES, StepState.SKIPPED, StepState.OMITTED})

StepNames = Annotated[list[StepName], Field(min_length=1, max_length=MAX_STEPS)]
Indexes = Annotated[
    list[Annotated[int, Field(ge=0, lt=MAX_ITEMS)]], Field(min_length=1, max_length=MAX_ITEMS)
]
Reason = Annotated[str, Field(max_length=1_000)]


def _is_none(value: object) -> bool:
    return value is None


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


class StartPipelineRun(Command):
    """Asks for a run of a pipeline, under the stream id of the command. `overrides` patch single steps."""

    pipeline: PipelineSpec
    parameters: Json = Field(default={})
    overrides: Patch = Field(default={})
    seed: int = Field(default=0, ge=0, le=2**53)
    use_cache: bool = Field(default=True)
    origin: RunOrigin | None = Field(default=None)


class PausePipelineRun(Command):
    """Asks a run to begin no more steps. With `running: return` its tasks give their devices back."""

    running: Literal["finish", "return"] = "finish"


class ResumePipelineRun(Command):
    """Asks a run that is paused to go on."""


class AbortPipelineRun(Command):
    """Asks a run to begin no more steps and to end those that run."""

    reason: Reason = ""


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
    reason: Reason = ""


class AbortStep(Command):
    """Asks a run to end a step: its tasks or its child, all or one of its indexes."""

    step: StepName
    index: int | None = Field(default=None, ge=0, lt=MAX_ITEMS)
    reason: Reason = ""


class ApproveGate(Command):
    """Approves a gate, with its form filled in. `actor` is who says so."""

    step: StepName
    inputs: Json = Field(default={})
    actor: str = Field(default="", max_length=200)


class RejectGate(Command):
    """Rejects a gate."""

    step: StepName
    reason: Reason = ""
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
    pipeline, with defaults filled in; `sha256` is the digest of the definition as it was given.
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


class StepReady(Event):
    """The steps before a step have ended as it needs them; `value` is that of its `when`, if it has one."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    value: Any = Field(default=None, exclude_if=_is_none)


class StepResolved(Event):
    """What the references of a step stand for, by their texts, and the event that each value comes from.

    `sources` are `STREAM@OFFSET`. References to the item or index are not among them.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    values: Json
    sources: dict[str, str]


class StepSkipped(Event):
    """A step does not run: by its `when` with this `value`, by an operator, or since one before it has not
    succeeded (`upstream`, which one is `cause`): then it is omitted.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    by: Literal["when", "operator", "upstream"]
    expression: str = Field(default="", exclude_if=is_absent)
    value: Any = Field(default=None, exclude_if=_is_none)
    cause: str = Field(default="", exclude_if=is_absent)
    reason: str = Field(default="", exclude_if=is_absent)
    command_id: str = Field(default="", exclude_if=is_absent)


class StepExpanded(Event):
    """The items of a step with `each`, which stay as they are."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    items: list[Any]


class StepRepeated(Event):
    """A step runs once more, as number `index` from 0: `value` is that of its `until`."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    index: int
    value: Any = None


class StepAbortRequested(Event):
    """A step is to end, or one of its indexes; `request` counts from 1 in the step."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    step: str
    generation: int = 0
    request: int
    index: int | None = Field(default=None, exclude_if=is_absent)
    reason: str = Field(default="", exclude_if=is_absent)


class StepError(BaseModel):
    """Why a step failed that no task of it says."""

    model_config = ConfigDict(frozen=True)
    code: str
    message: str


class StepEnded(Event):
    """A step has ended, after its tasks or its child, its gate, or an error of its own.

    `kind` says it more closely, in the words of an attempt's end, a child's status, or the code of `error`.
    `ends` counts the tasks or children of a step with `each` or `repeat` by their state.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    status: StepState
    kind: str = Field(default="", exclude_if=is_absent)
    ends: dict[str, int] = Field(default={}, exclude_if=is_absent)
    error: StepError | None = Field(default=None, exclude_if=is_absent)
    value: Any = Field(default=None, exclude_if=_is_none)


class CacheEntry(BaseModel):
    """A step of a run that has succeeded, as the cache finds it: where it is, and what it has found."""

    model_config = ConfigDict(frozen=True)
    stream: str
    step: str
    offset: int
    ended_ms: int


class StepCacheHit(Event):
    """A step need not run: `found` had the same `parts`, and the store has its artifacts.

    `result`, `artifacts` and `parameters` are those of the step that was found.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    key: str
    parts: Json
    found: CacheEntry
    result: Json | None = Field(default=None, exclude_if=_is_none)
    artifacts: dict[str, ArtifactReference | CheckpointReference] = Field(default={}, exclude_if=is_absent)


class StepCacheMissed(Event):
    """No step has the same `parts`; `nearest` differs least, in the parts that `differs` names."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    key: str
    parts: Json
    nearest: CacheEntry | None = Field(default=None, exclude_if=is_absent)
    differs: list[str] = Field(default=[], exclude_if=is_absent)


class GateOpened(Event):
    """A gate waits for its decision, until `due_ms` if it has a time limit."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    message: str = Field(default="", exclude_if=is_absent)
    timeout_s: float | None = Field(default=None, exclude_if=is_absent)


class GateDecided(Event):
    """A gate is decided; void if it expired before `due_ms`."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    decision: Literal["approved", "rejected", "expired"]
    actor: str = Field(default="", exclude_if=is_absent)
    inputs: Json = Field(default={}, exclude_if=is_absent)
    reason: str = Field(default="", exclude_if=is_absent)
    command_id: str = Field(default="", exclude_if=is_absent)
    due_ms: int | None = Field(default=None, exclude_if=is_absent)


class RunPaused(Event):
    """A run begins no more steps; `change` counts pauses, resumptions and updates from 1."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    running: Literal["finish", "return"] = "finish"


class RunResumed(Event):
    """A run that was paused goes on."""

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
    """A run that was over goes on: the steps of `reset` begin again, of some only these `indexes`.

    `revival` counts from 1. It is also the generation of the steps that are reset.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    revival: int
    reset: list[str]
    indexes: dict[str, list[int]] = Field(default={}, exclude_if=is_absent)
    patch: Patch = Field(default={}, exclude_if=is_absent)


class RunEnded(Event):
    """A run is over; it can be continued until it is archived.

    `causes` are the steps for which it failed. `outputs` are those of its pipeline, as far as they have a
    value.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    revival: int = 0
    status: RunStatus
    causes: list[str] = Field(default=[], exclude_if=is_absent)
    outputs: Json = Field(default={}, exclude_if=is_absent)


class RunArchived(Event):
    """A run can't be continued any more; void if before `due_ms`, where a time limit is the reason."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str = Field(default="", exclude_if=is_absent)
    due_ms: int | None = Field(default=None, exclude_if=is_absent)
