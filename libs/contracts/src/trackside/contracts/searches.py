"""Searches: commands and events of a hyper-parameter search and its trials."""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from trackside.contracts.message import Command, Event, Json
from trackside.contracts.resources import Needs
from trackside.contracts.search_space import Option, Space

DISPATCHER = frozenset({"dispatcher"})


class SearchStatus(StrEnum):
    """The states of a search."""

    RUNNING = "RUNNING"
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
    """The algorithm that suggests parameters, with its options."""

    name: str = "tpe"
    options: dict[str, Option] = {}


class Assessor(_Spec):
    """The algorithm that ends hopeless trials early, with its options.

    With `count_last_value` the last value of a trial that was stopped early is its result for the tuner.
    """

    name: str = "median"
    options: dict[str, Option] = {}
    count_last_value: bool = False


class SearchSpec(Needs):
    """Everything that defines a search; its id is the stream's. The needs are those of each trial's task."""

    name: str = Field(default="", max_length=200)
    task_type: str = Field(min_length=1, max_length=200)
    space: Space = Field(min_length=1, max_length=1_000)
    tuner: Tuner = Tuner()
    assessor: Assessor | None = None
    direction: Literal["maximize", "minimize"] = "maximize"
    max_trials: int = Field(ge=1, le=1_000_000)
    concurrency: int = Field(default=1, ge=1, le=10_000)
    seed: int | None = Field(default=None, ge=0, le=2**53)

    @property
    def needs(self) -> Needs:
        """What the task of each trial asks for."""
        return Needs(**{name: getattr(self, name) for name in Needs.model_fields})


class StartSearch(Command, SearchSpec):
    """Asks for a new search under the stream id of the command."""


class StopSearch(Command):
    """Asks a search to suggest nothing more and to end its running trials."""

    reason: str = Field(default="", max_length=1_000)


class SearchStarted(Event):
    """A search has begun; `seed` is set even if the command left it out."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    search: SearchSpec
    seed: int


class TrialSuggested(Event):
    """A tuner's parameters for the next trial; `trial` is also the number of trials before it."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    trial: int
    parameters: Json
    seen: int


class TrialEnded(Event):
    """A trial has its final state, and its value if it has one."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    trial: int
    status: TrialStatus
    value: float | None = None


class SearchExhausted(Event):
    """The tuner has no parameters left that it has not suggested."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    trials: int


class SearchStopRequested(Event):
    """A search takes no new trials and ends those that run."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    command_id: str
    reason: str


class SearchFailed(Event):
    """A search can't go on: its tuner failed for good. Running trials are ended."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    code: str
    message: str


class SearchEnded(Event):
    """A search is over: nothing of it runs any more."""

    written_by: ClassVar[frozenset[str]] = DISPATCHER
    status: SearchStatus
    trials: int
