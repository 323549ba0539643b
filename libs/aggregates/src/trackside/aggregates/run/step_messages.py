"""The steps of runs: their states, and the events about them."""

from dataclasses import dataclass
from enum import StrEnum
from operator import not_
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.envelope.ids import Identifier
from trackside.contracts.envelope.message import DISPATCHER, Event, Json, is_absent
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.domain.pipelines.definition import MAX_ITEMS


def _is_none(value: object) -> bool:
    return value is None


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


class StepReady(Event):
    """The steps before a step have ended as it needs them; `value` is that of its `when`, if it has one."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    value: Any = Field(default=None, exclude_if=_is_none)


class StepResolved(Event):
    """The values of the references of a step, by their texts, and the event that each comes from.

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
    """A step of a run that has succeeded, as the cache finds it.

    `task` and `offset` are its task and the event that ended it; `ended_ms` is when the task ended that made
    the result, also if this step was found in the cache itself.
    """

    model_config = ConfigDict(frozen=True)
    stream: str
    step: str
    task: str
    offset: int
    ended_ms: int


class CachedArtifact(BaseModel):
    """An artifact of a step that was found in the cache; `attempt` is the one that saved it, 0 if unknown."""

    model_config = ConfigDict(frozen=True)
    version: int
    kind: str
    reference: ArtifactReference
    attempt: int = Field(default=0, exclude_if=not_)
    metadata: Json = Field(default={}, exclude_if=is_absent)


class TakenOutput(BaseModel):
    """What a task or child of a step that is taken over has found; `index` is its number in the step."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    index: int = Field(default=0, ge=0, lt=MAX_ITEMS)
    task: str
    offset: int = Field(ge=0, le=2**63 - 1)
    result: Any = Field(default=None, exclude_if=_is_none)
    artifacts: dict[str, CachedArtifact] = Field(default={}, exclude_if=is_absent)
    inputs: dict[str, ArtifactReference] = Field(default={}, exclude_if=is_absent)


class TakenStep(BaseModel):
    """A step that had succeeded in another run, at `offset` of its stream, and is not run again.

    `values` and `items` are what its references and its `each` had become there, `count` is how many items
    it had. `outputs` are those of the items that were kept there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    stream: Identifier
    offset: int = Field(ge=0, le=2**63 - 1)
    count: int = Field(default=1, ge=0, le=MAX_ITEMS)
    items: list[Any] | None = Field(default=None, exclude_if=_is_none)
    values: Json = Field(default={}, exclude_if=is_absent)
    outputs: list[TakenOutput] = Field(default=[], max_length=MAX_ITEMS, exclude_if=is_absent)


class StepCacheHit(Event):
    """A step need not run: `found` had the same `parts`, and the store has its artifacts.

    `result` and `artifacts` are those of the step that was found.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    key: str
    parts: Json
    found: CacheEntry
    result: Json | None = Field(default=None, exclude_if=_is_none)
    artifacts: dict[str, CachedArtifact] = Field(default={}, exclude_if=is_absent)


class StepCacheMissed(Event):
    """A step runs: no other has the same `parts`; `nearest` differs least, in the parts that `differs` names.

    With a reason it runs although one has them, or none was looked for: that is too old (`expired`), the
    store lacks artifacts of it (`artifacts_missing`) or no worker could say (`unchecked`); its rule wants it
    to run (`refresh`), its run uses no cache (`off`), or no catalogue gives a digest of its task type
    (`no_digest`).
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    step: str
    generation: int = 0
    key: str
    parts: Json
    nearest: CacheEntry | None = Field(default=None, exclude_if=is_absent)
    differs: list[str] = Field(default=[], exclude_if=is_absent)
    reason: Literal["", "expired", "refresh", "off", "no_digest", "artifacts_missing", "unchecked"] = Field(
        default="", exclude_if=is_absent
    )


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


@dataclass(slots=True)
class ArtifactCheck:
    """Whether the store has the artifacts of a step that was found in the cache."""

    key: str
    """The key that it was found by."""
    stream: str
    """The stream of the run that it is a step of."""
    step: str
    """Its name there."""
    offset: int
    """Offset of the event that ended it."""
    open: bool = True
    """Whether the task that checks them has not ended."""
    missing: list[str] | None = None
    """The artifacts that the store lacks, by name; None: not known."""

    def is_of(self, entry: CacheEntry) -> bool:
        """Returns whether it was about an entry."""
        return (self.stream, self.step, self.offset) == (entry.stream, entry.step, entry.offset)
