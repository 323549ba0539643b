"""The state of a run: its steps, what each waits for, and what is open. Drawn in ARCHITECTURE.md."""

import re
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import PlainSerializer

from trackside.aggregates.run.messages import RunOrigin, RunStatus
from trackside.aggregates.run.step_messages import (
    FAILURES,
    SUCCESSES,
    ArtifactCheck,
    CachedArtifact,
    StepError,
    StepState,
)
from trackside.contracts.envelope.ids import step_task_id
from trackside.contracts.envelope.message import Json
from trackside.contracts.tasks.artifacts import ArtifactReference
from trackside.domain.pipelines.definition import CHILD, PipelineSpec, StepSpec, action_after, kind_of
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import SavedArtifact

OVER = frozenset({RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.ABORTED, RunStatus.TIMED_OUT})
STOPPING = frozenset({RunStatus.FAILING, RunStatus.ABORTING, RunStatus.TIMING_OUT})
WORKING = frozenset({StepState.READY, StepState.QUEUED, StepState.RUNNING})
MS_PER_DAY = 86_400_000
CHECK = ".check"
"""What the id of a task that checks artifacts ends with; the name of a step has no dot."""
_ITEM = re.compile(r"([^.]+)(?:\.([0-9]{1,9}))?(?:\.g([0-9]{1,9}))?")
_Indexes = Annotated[set[int], PlainSerializer(sorted, return_type=list[int])]
_Order = dict[str, None]
"""A set of steps that keeps the order in which they came."""


@dataclass(slots=True)
class StepWait:
    """How far the needs of a step are met."""

    unmet: int = 0
    """How many of `all` and `all_ended` have not ended."""
    any_left: int = 0
    """How many of `any_of` have not ended."""
    any_met: bool = True
    """Whether one of `any_of` has succeeded, or there are none."""
    blocked_by: str = ""
    """The step that has ended in another way than is needed; empty if there is none."""

    @property
    def met(self) -> bool:
        """Returns whether the step may begin."""
        return not self.unmet and self.any_met and not self.blocked_by

    @property
    def decided(self) -> bool:
        """Returns whether the step may begin, or never will."""
        return bool(self.blocked_by) or self.met


@dataclass(slots=True)
class StepOutput:
    """What a task or child of a step has found, for references."""

    task: str
    """The id of the task, or of the child's stream."""
    at: int
    """Offset of the event that ended it."""
    result: Any = None
    """What `train` returned, what the child's aggregate says of its end, or the inputs of a gate."""
    artifacts: dict[str, SavedArtifact] = field(default_factory=dict)
    """The newest version of each artifact that it saved, by name."""
    inputs: dict[str, ArtifactReference] = field(default_factory=dict)
    """The artifacts that it was given, by name."""


def cached_artifact(saved: SavedArtifact) -> CachedArtifact:
    """Returns an artifact as the event has it by which another run takes it over."""
    fields = {name: getattr(saved, name) for name in CachedArtifact.model_fields}
    return CachedArtifact(**fields)


def taken_artifact(cached: CachedArtifact) -> SavedArtifact:
    """Returns an artifact that was taken over from another run."""
    return SavedArtifact(**dict(cached))


@dataclass(slots=True)
class OpenGate:
    """A gate that was opened."""

    opened_ms: int
    """When it was opened: append time of GateOpened, in ms since 1970."""
    timeout_s: float | None = None
    """After how many seconds it expires; None: never."""
    decision: str = ""
    """approved, rejected or expired; empty before that."""
    actor: str = ""
    """Who decided, as the command says it; empty if it doesn't."""
    inputs: Json = field(default_factory=dict)
    """The form, filled in; empty before the decision."""
    reason: str = ""
    """Why it was rejected; empty otherwise."""
    decided_ms: int = 0
    """When it was decided, in ms since 1970; 0 before that."""

    @property
    def due_ms(self) -> int | None:
        """When it expires; None if it is decided, or never expires."""
        if self.decision or self.timeout_s is None:
            return None
        return self.opened_ms + int(self.timeout_s * 1000)


@dataclass(slots=True)
class RunStep:
    """A step as folded from the log. An *item* is one task or child of it, numbered from 0 by its index."""

    number: int
    """Its place in the definition, from 0."""
    dependents: dict[str, list[str]] = field(default_factory=dict)
    """The steps that need it, each with its rules that name it: `all`, `any_of`, `all_ended`."""
    wait: StepWait = field(default_factory=StepWait)
    """How far its needs are met."""
    state: StepState = StepState.PENDING
    """Its state."""
    generation: int = 0
    """The revival that it was reset by last; 0 for none."""
    resolved: Json | None = None
    """The values of its references by their texts; None before StepResolved."""
    sources: dict[str, str] = field(default_factory=dict)
    """The events that the values come from, as `STREAM@OFFSET`, by the texts of the references."""
    items: list[Any] | None = None
    """The items of `each`; None before StepExpanded, and for other steps."""
    count: int = 0
    """How many items it has: 0 before it is ready; one more for each repetition."""
    again: list[int] | None = None
    """The indexes that begin in this generation, in order; None for all."""
    begun: int = 0
    """How many items have begun in this generation."""
    open: _Indexes = field(default_factory=set)
    """The indexes of items that have begun and not ended."""
    active: _Indexes = field(default_factory=set)
    """The indexes of open items that run, or are placed at a worker."""
    unsuccessful: dict[int, StepState] = field(default_factory=dict)
    """How those items ended that have not succeeded, by index."""
    kind: str = ""
    """How its last item ended that has not succeeded, in the words of its task or child; or of its end."""
    ended_items: int = 0
    """How many items have ended, those of earlier generations that are kept included."""
    keeps_outputs: bool = False
    """Whether other steps, or the outputs of its pipeline, refer to what it has found."""
    outputs: dict[int, StepOutput] = field(default_factory=dict)
    """What its items have found, by index: with `repeat` the last one, with `each` all if it keeps them."""
    gate: OpenGate | None = None
    """Its gate, once it is open."""
    cache_key: str = ""
    """The key that later steps find it by; empty before that is known, and if its artifacts are forgotten."""
    cache_parts: dict[str, str] = field(default_factory=dict)
    """What the key was computed from, as short texts by part; empty before it was looked up."""
    check: ArtifactCheck | None = None
    """The check of the artifacts of the step that was found; None if there was none."""
    made_ms: int = 0
    """When the task ended whose result was found in the cache, in ms since 1970; 0 if none was."""
    aborts: int = 0
    """How often it was asked to end."""
    aborted: bool = False
    """Whether it begins no more items since it was asked to end."""
    to_stop: _Indexes = field(default_factory=set)
    """The open items that are to be sent a stop."""
    stopping: _Indexes = field(default_factory=set)
    """The open items that were sent one."""
    error: StepError | None = None
    """Why it failed, if no task of it says so."""
    reason: str = ""
    """Why it was skipped or aborted, as the operator said."""
    ready_ms: int = 0
    """When it was ready: append time of StepReady, in ms since 1970; 0 before that."""
    ended_ms: int = 0
    """When it ended, in ms since 1970; 0 before that."""
    changed_at: int = -1
    """Offset of the last event that changed it; a cause of later decisions."""

    @property
    def over(self) -> bool:
        """Returns whether it has ended, in any way."""
        return self.state is not StepState.PENDING and self.state not in WORKING

    @property
    def todo(self) -> int:
        """How many items begin in this generation."""
        return self.count if self.again is None else len(self.again)

    @property
    def next_index(self) -> int | None:
        """The index of the item that begins next; None if all have begun, or none may."""
        if self.aborted or self.begun >= self.todo:
            return None
        return self.begun if self.again is None else self.again[self.begun]

    @property
    def ends(self) -> dict[str, int]:
        """How many items have ended, by their state."""
        counted = Counter(state.value for state in self.unsuccessful.values())
        succeeded = self.ended_items - len(self.unsuccessful)
        return dict(sorted((counted + Counter({StepState.SUCCEEDED.value: succeeded})).items()))

    def has_begun(self, index: int) -> bool:
        """Returns whether an item has begun in this generation."""
        if self.again is None:
            return 0 <= index < self.begun
        position = bisect_left(self.again, index)
        return position < self.begun and self.again[position] == index


@dataclass(slots=True)
class Run:
    """A run of a pipeline as folded from the log."""

    run_id: str
    """Its id, which is also the id of its stream."""
    spec: PipelineSpec
    """Its definition, compiled, with what commands have patched."""
    sha256: str
    """The digest of the definition as it was given."""
    parameters: Json
    """The values of the pipeline's parameters."""
    started_ms: int
    """When it started: append time of RunStarted, in ms since 1970."""
    started_at: int
    """Offset of RunStarted; a cause of later decisions."""
    seed: int = 0
    """Its seed, as the command gave it."""
    use_cache: bool = True
    """Whether steps may be found in the cache."""
    origin: RunOrigin | None = None
    """The defined pipeline that it is a run of; None for one that was given inline."""
    steps: dict[str, RunStep] = field(default_factory=dict)
    """Its steps by name, in the order of the definition."""
    status: RunStatus = RunStatus.RUNNING
    """Its state."""
    paused: str = ""
    """`finish` or `return`, how it was paused; empty if it is not."""
    changes: int = 0
    """How often it was paused, resumed and updated."""
    concurrency: int = 1
    """How many items may be open at once."""
    timeout_s: float | None = None
    """After how many seconds it is stopped; None: never."""
    priority: int | None = None
    """The priority of all its tasks from now on; None: as its definition says."""
    open: int = 0
    """How many items of all steps are open."""
    unended: int = 0
    """How many steps have not ended."""
    frontier: _Order = field(default_factory=dict)
    """The pending steps that may begin, or never will."""
    ready: _Order = field(default_factory=dict)
    """The steps that are ready and may have more items to begin."""
    finished: _Order = field(default_factory=dict)
    """The steps that have not ended and whose items have: their end, or another repetition, comes next."""
    open_gates: _Order = field(default_factory=dict)
    """The steps whose gates wait for a decision."""
    checks: dict[str, str] = field(default_factory=dict)
    """The steps whose artifacts in the cache are checked now, with the ids of the tasks that do that."""
    cached: dict[str, str] = field(default_factory=dict)
    """The steps that others may find in the cache, by their keys."""
    ending: _Order = field(default_factory=dict)
    """The steps with open items that are to be sent a stop."""
    held: _Order = field(default_factory=dict)
    """The ids of the tasks that are held."""
    causes: list[str] = field(default_factory=list)
    """The steps for which it fails."""
    revival: int = 0
    """How often it was continued after its end."""
    since_ms: int = 0
    """When it started, or was continued last, in ms since 1970: its time limit counts from then."""
    stop_reason: str = ""
    """Why it was aborted; empty otherwise."""
    ended_ms: int = 0
    """When it ended last, in ms since 1970; 0 while it goes on."""
    outputs: Json = field(default_factory=dict)
    """What it has found, at its end; empty before that."""
    models: list[Json] = field(default_factory=list)
    """What is known of the outputs that are trained models, the one that counts first."""
    archived: bool = False
    """Whether it can't be continued any more."""
    changed_at: int = -1
    """Offset of the last event that changed it; a cause of later decisions."""
    control_at: int = -1
    """Offset of the last event that stopped, paused, resumed or updated it; a cause of later decisions."""
    settled: list[str] = field(default_factory=list)
    """The ids of the tasks that have ended and are still kept."""

    @property
    def over(self) -> bool:
        """Returns whether nothing of it runs; unless it is archived, it may be continued."""
        return self.status in OVER

    @property
    def closed(self) -> bool:
        """Returns whether its end is final: once it is archived."""
        return self.archived

    def has_settled(self, task_id: str) -> bool:
        """Returns whether a task that is not kept has settled: whether it has begun."""
        found = self.item_of(task_id.removesuffix(CHECK))
        if found is None:
            return False
        step, index, generation = found
        known = self.steps[step]
        begun = known.check is not None if task_id.endswith(CHECK) else known.has_begun(index)
        return generation < known.generation or (generation == known.generation and begun)

    def item_of(self, task_id: str) -> tuple[str, int, int] | None:
        """Returns step, index and generation of a task's or child's id; None for any other id."""
        found = _ITEM.fullmatch(task_id.removeprefix(f"{self.run_id}."))
        if found is None or found[1] not in self.steps:
            return None
        step, index, generation = found[1], int(found[2] or 0), int(found[3] or 0)
        return (step, index, generation) if self.item_id(step, index, generation) == task_id else None

    def item_id(self, name: str, index: int, generation: int | None = None) -> str:
        """Returns the id of the task, or of the child's stream, of an item of a step."""
        step = self.steps[name]
        number = step.generation if generation is None else generation
        return step_task_id(self.run_id, name, index if self.has_items(name) else None, number)

    def check_id(self, name: str) -> str:
        """Returns the id of the task that checks the artifacts of a step in the cache."""
        return self.item_id(name, 0) + CHECK

    def has_items(self, name: str) -> bool:
        """Returns whether a step may have several items."""
        spec = self.spec_of(name)
        return spec.each is not None or spec.repeat is not None

    def trim(self) -> None:
        """Keeps all: what later steps refer to is in the steps."""

    def release(self) -> None:
        """Drops what is only needed to continue."""
        self.settled.clear()
        self.cached.clear()
        for step in self.steps.values():
            step.items = step.resolved = None
            step.outputs, step.sources = {}, {}  # replaced, not emptied: events have these objects, too
            step.cache_parts = {}

    def spec_of(self, name: str) -> StepSpec:
        """Returns the definition of a step."""
        return self.spec.steps[self.steps[name].number]

    @property
    def stopping(self) -> bool:
        """Returns whether it begins nothing more and ends what is open."""
        return self.status in STOPPING

    def at_once(self, name: str) -> int:
        """Returns how many items of a step may be open at the same time."""
        return self.spec_of(name).at_once or self.concurrency

    def may_begin(self, name: str) -> int | None:
        """Returns the index of the item of a step that may begin now; None if none may."""
        step = self.steps[name]
        if self.status is not RunStatus.RUNNING or step.state not in WORKING or self.open >= self.concurrency:
            return None
        if len(step.open) >= self.at_once(name):
            return None
        if self.spec_of(name).cache is not None and not step.cache_parts:
            return None
        return step.next_index

    def is_child(self, name: str) -> bool:
        """Returns whether the items of a step are streams of their own."""
        return kind_of(self.spec_of(name)) == CHILD

    def counts_as_success(self, name: str, state: StepState) -> bool:
        """Returns whether a step that ends in a state counts as succeeded, for those that need it."""
        if state in SUCCESSES:
            return True
        return state in FAILURES and action_after(self.spec, self.spec_of(name), state.value) == "continue"

    @property
    def due_ms(self) -> int | None:
        """When its time limit is reached, or it is archived; None without either."""
        if self.over:
            return None if self.archived else self.ended_ms + int(self.spec.keep_days * MS_PER_DAY)
        if self.stopping or self.timeout_s is None:
            return None
        return self.since_ms + int(self.timeout_s * 1000)


def run_of(stream: Stream) -> Run | None:
    """Returns the run of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, Run) else None
