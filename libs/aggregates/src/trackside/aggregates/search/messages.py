"""Searches: commands and events of a hyper-parameter search and its trials."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from trackside.aggregates.search.space.failure_policies import AssessorFailure, TunerFailure
from trackside.aggregates.search.space.space import Finite, Option, Space
from trackside.contracts.envelope.message import DISPATCHER, Command, Event, Json, is_absent
from trackside.contracts.tasks.artifacts import CheckpointReference, Inputs
from trackside.contracts.tasks.resources import Needs
from trackside.contracts.tasks.tasks import Figure, NonFinite

TRIAL = "trial"
"""The kind of part that the tasks of a search are for."""
MAX_DURATION_S = 366 * 24 * 3_600
Duration = Annotated[float, Field(gt=0, le=MAX_DURATION_S, allow_inf_nan=False)]
Concurrency = Annotated[int, Field(ge=1, le=10_000)]
Direction = Literal["maximize", "minimize"]
MaxTrials = Annotated[int, Field(ge=1, le=1_000_000)]
Parameters = Annotated[dict[str, JsonValue], Field(min_length=1)]
"""What a user gives a trial: values as a search space has them, those of sub-spaces as objects."""
Suggester = Literal["algorithm", "fallback", "customized"]
"""Who suggested a trial's parameters: the tuner, chance in its place, or a user."""


class SearchStatus(StrEnum):
    """The states of a search."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    NO_MORE_TRIAL = "NO_MORE_TRIAL"
    TUNER_NO_MORE_TRIAL = "TUNER_NO_MORE_TRIAL"
    STOPPING = "STOPPING"
    DONE = "DONE"
    STOPPED = "STOPPED"
    ERROR = "ERROR"


class TrialStatus(StrEnum):
    """The states of a trial."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    USER_CANCELED = "USER_CANCELED"
    SYS_CANCELED = "SYS_CANCELED"
    EARLY_STOPPED = "EARLY_STOPPED"


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Tuner(_Spec):
    """The algorithm that suggests parameters, with its options.

    With `remote` it is any process, in any language, that answers requests of this name; each within
    `time_limit_s`, or the dispatcher's own limit if that isn't given.
    """

    name: str = "tpe"
    remote: bool = False
    time_limit_s: float | None = Field(default=None, gt=0, le=3_600, allow_inf_nan=False)
    options: dict[str, Option] = {}
    on_failure: TunerFailure = TunerFailure()


class Assessor(_Spec):
    """The algorithm that stops trials early, with its options.

    With `count_last_value` the last value of a trial that was stopped early is its result for the tuner. With
    `remote` it is any process, in any language, that answers requests of this name; each within
    `time_limit_s`, or the dispatcher's own limit if that isn't given.
    """

    name: str = "median"
    remote: bool = False
    time_limit_s: float | None = Field(default=None, gt=0, le=3_600, allow_inf_nan=False)
    options: dict[str, Option] = {}
    count_last_value: bool = False
    on_failure: AssessorFailure = AssessorFailure()


class Objective(_Spec):
    """A number that a search optimizes, by its name among those that a trial reports."""

    name: str = Field(min_length=1, max_length=200)
    direction: Direction = "maximize"


class SearchSpec(Needs):
    """Everything that defines a search; its id is the stream's. The needs are those of each trial's task.

    `max_duration_s` counts the time in which it isn't paused: after it no trial begins. A trial that runs on
    its device for longer than `max_trial_duration_s` is stopped early. No trial begins once the best value
    has reached `goal`.

    `objectives` name the numbers of a report that count, the first one also for its plain number. Without
    them this alone counts, in `direction`. The task of each trial gets `inputs`, by their names.
    """

    name: str = Field(default="", max_length=200)
    task_type: str = Field(min_length=1, max_length=200)
    space: Space = Field(min_length=1, max_length=1_000)
    tuner: Tuner = Tuner()
    assessor: Assessor | None = None
    direction: Direction = "maximize"
    objectives: list[Objective] = Field(default=[], max_length=8)
    max_trials: MaxTrials
    concurrency: Concurrency = 1
    max_duration_s: Duration | None = None
    max_trial_duration_s: Duration | None = None
    goal: Finite | None = None
    seed: int | None = Field(default=None, ge=0, le=2**53)
    inputs: Inputs = Field(default={}, exclude_if=is_absent)

    @property
    def needs(self) -> Needs:
        """What the task of each trial asks for."""
        return Needs(**{name: getattr(self, name) for name in Needs.model_fields})


class PastTrial(_Spec):
    """A result from another source: parameters of the space, and their value."""

    parameters: Parameters
    value: Finite


class Origin(_Spec):
    """The recorded search that a new one repeats (rerun) or continues (fork), and up to which offset."""

    kind: Literal["rerun", "fork"]
    stream: str = Field(min_length=1, max_length=300)
    offset: int = Field(ge=0)


class StartSearch(Command, SearchSpec):
    """Asks for a new search under the stream id of the command.

    Its tuner receives the results of `past` before its first suggestion. The first trials have the parameters
    of `first`; the tuner draws those left out. With `first_outside` values may be outside of the space.
    """

    origin: Origin | None = None
    past: list[PastTrial] = Field(default=[], max_length=10_000)
    first: list[Parameters] = Field(default=[], max_length=200)
    first_outside: bool = False


class StopSearch(Command):
    """Asks a search to suggest nothing more and to end its running trials."""

    reason: str = Field(default="", max_length=1_000)


class RequestTrials(Command):
    """Asks for so many trials once, beyond the search's concurrency and within its max_trials."""

    count: int = Field(ge=1, le=10_000)


class UpdateSearchSpace(Command):
    """Changes the space of a search, from the next suggestion on; trials already suggested continue."""

    space: Space = Field(min_length=1, max_length=1_000)


class ImportTrials(Command):
    """Imports results of other sources for a search's tuner; parameter sets that it has are skipped."""

    trials: list[PastTrial] = Field(min_length=1, max_length=10_000)


class AddTrial(Command):
    """Requests a trial with these parameters as the next one; the tuner draws those that are left out.

    With `tell_tuner` the tuner learns from its result; else it only won't suggest the same again. With
    `outside` values may be outside of the space: such a trial is marked, and is never the best one.
    """

    parameters: Parameters
    tell_tuner: bool = False
    outside: bool = False


Removable = Literal["max_duration_s", "max_trial_duration_s", "goal"]


class UpdateSearch(Command):
    """Changes limits of a search while it runs; what is left out stays. Ends no trial that runs.

    `remove` names limits to remove.
    """

    concurrency: Concurrency | None = None
    max_trials: MaxTrials | None = None
    max_duration_s: Duration | None = None
    max_trial_duration_s: Duration | None = None
    goal: Finite | None = None
    remove: list[Removable] = Field(default=[], max_length=3)


class PauseSearch(Command):
    """Asks a search to start no new trials until it is resumed.

    Running trials continue to their end (`finish`), or return their devices at once and run when the search
    is resumed (`return`).
    """

    running: Literal["finish", "return"] = "finish"
    reason: str = Field(default="", max_length=1_000)


class ResumeSearch(Command):
    """Asks a paused search to continue."""


class StopTrial(Command):
    """Asks a search to end one trial; the search continues."""

    trial: int = Field(ge=0, le=1_000_000)


class SearchStarted(Event):
    """A search has begun, with a `seed` in any case; `origin` is the recorded search that it comes from."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    search: SearchSpec
    seed: int
    origin: Origin | None = None


class TrialCheckpoint(_Spec):
    """The trial that another one continues, and its checkpoint; None if it has none."""

    trial: int = Field(ge=0)
    checkpoint: CheckpointReference | None = None


class TrialSuggested(Event):
    """The parameters of the next trial; `trial` is also the number of trials before it.

    `source` says whether the tuner suggested them, chance drew them since the tuner had failed (fallback), or
    a user added them (customized); `space_version` which space the search had: the one it started with is 1.
    `within` names the running task that had asked for another trial and has this one too. `outside` names
    the parameters that a user gave values outside of the space: such a trial is never the best one.
    A trial that was promoted continues `from_checkpoint`, from the first step if that has none. It is over
    when it has reported the step before `step_limit`.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    trial: int
    parameters: Json
    seen: int
    source: Suggester = "algorithm"
    space_version: int = 1
    within: str = ""
    outside: list[str] = Field(default=[])
    from_checkpoint: TrialCheckpoint | None = Field(default=None, exclude_if=is_absent)
    step_limit: int | None = Field(default=None, exclude_if=is_absent)


class TrialEnded(Event):
    """A trial has its final state, and its value if it has one: that of the first objective.

    A value that isn't finite has a name instead. `values` are those of all objectives where there are
    several, in their order. `missing` names objectives that a trial which had an end left out: it failed.
    """

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    trial: int
    status: TrialStatus
    value: float | None = None
    non_finite: NonFinite | None = None
    values: list[Figure | None] = Field(default=[])
    missing: list[str] = Field(default=[])


class SearchExhausted(Event):
    """The tuner has no parameters left that it has not suggested; `seen` is the offset it was asked at."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    trials: int
    seen: int = -1


class TrialsRequested(Event):
    """So many slots are open beyond the concurrency, once. `change` counts the changes of a search from 1."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    count: int


class SearchSpaceUpdated(Event):
    """A search has another space; the one it started with is version 1."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    space_version: int
    space: Space


class TrialsImported(Event):
    """Results from other sources, which the tuner receives before the trials whose slots open later."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    trials: list[PastTrial]


class TrialAdded(Event):
    """A user's parameters wait for the next slot; `partial`: the tuner draws those that are left out."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    parameters: Json
    tell_tuner: bool = False
    partial: bool = False


class SearchUpdated(Event):
    """The limits of a search, all of them, as they hold from now on."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    concurrency: int
    max_trials: int
    max_duration_s: float | None = None
    max_trial_duration_s: float | None = None
    goal: float | None = None


class SearchPaused(Event):
    """No trial begins until the search is resumed; with `return` those that run give their devices back."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int
    running: Literal["finish", "return"]
    reason: str = ""


class SearchResumed(Event):
    """A search continues."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    change: int


class SearchTimeLimitReached(Event):
    """A search has run for as long as it may: no trial begins any more; void if before `due_ms`."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    due_ms: int


class SearchStopRequested(Event):
    """A search takes no new trials and ends those that run."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    reason: str


class SearchFailed(Event):
    """A search cannot continue: its tuner failed too often. Running trials are ended."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    code: str
    message: str


class SearchEnded(Event):
    """A search is over: nothing of it runs any more."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    status: SearchStatus
    trials: int
