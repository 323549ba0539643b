"""The state of a search: its trials, which slots are open, and when it is over. Drawn in ARCHITECTURE.md."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import PlainSerializer

from trackside.aggregates.search.messages import (
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchPaused,
    SearchResumed,
    SearchSpaceUpdated,
    SearchSpec,
    SearchStarted,
    SearchStatus,
    SearchStopRequested,
    SearchTimeLimitReached,
    SearchUpdated,
    Suggester,
    TrialAdded,
    TrialEnded,
    TrialsImported,
    TrialsRequested,
    TrialStatus,
    TrialSuggested,
)
from trackside.contracts.envelope.ids import trial_of_task_id, trial_task_id
from trackside.contracts.envelope.message import Json
from trackside.contracts.envelope.trace_context import derive_trace
from trackside.contracts.tasks.artifacts import CheckpointReference
from trackside.contracts.tasks.tasks import Figure
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState
from trackside.domain.tasks.trained_models import MAX_MODELS, TRAINED_MODELS

Change = (
    TrialsRequested
    | SearchSpaceUpdated
    | TrialsImported
    | TrialAdded
    | SearchUpdated
    | SearchPaused
    | SearchResumed
)
"""What commands change while a search goes on; each event says which change of the search it is."""
SearchEvent = (
    SearchStarted
    | TrialSuggested
    | TrialEnded
    | SearchExhausted
    | Change
    | SearchTimeLimitReached
    | SearchStopRequested
    | SearchFailed
    | SearchEnded
)
FeedRow = tuple[int, int | str | None, float | int | str | None]
"""What an assessor reads: (trial, step, value) is a report, (trial, None, None) a new attempt,
(trial, RESUMED, step) that the reports before it count again below a step, and (trial, status, value) an
end. A value that isn't a finite number is a name: nan, inf, -inf.
"""
RESUMED = "RESUMED"
OVER = frozenset({SearchStatus.DONE, SearchStatus.STOPPED, SearchStatus.ERROR})
MAX_FRONT = 100
"""How many trials of a front are in the outcome of a search."""
GOES_ON = frozenset({SearchStatus.RUNNING, SearchStatus.PAUSED})  # a search doesn't end in these


@dataclass(slots=True)
class Trial:
    """A trial of a search as folded from the log."""

    number: int
    """Counts the trials of the search from 0."""
    parameters: dict[str, Any]
    """The parameters that its task runs with, by name."""
    suggested_at: int
    """Offset of TrialSuggested."""
    suggested_ms: int
    """When it was suggested: append time of TrialSuggested, in ms since 1970."""
    ended_at: int = -1
    """Offset of TrialEnded; -1 before that."""
    ended_ms: int = 0
    """When it ended: append time of TrialEnded, in ms since 1970; 0 before that."""
    status: TrialStatus | None = None
    """How it ended; None before that."""
    value: float | None = None
    """Its value for the first objective; None before its end, without a value, and if that is not finite."""
    non_finite: str = ""
    """The value for the first objective if it is not finite: nan, inf or -inf; else empty."""
    values: list[Figure | None] = field(default_factory=list)
    """Its values in the order of the objectives, None for a missing one; empty if there is one objective."""
    others: dict[str, Figure] = field(default_factory=dict)
    """The other numbers that its task reported with its value, by name; empty before its end, and trimmed."""
    missing: list[str] = field(default_factory=list)
    """The objectives that it ended without a value for; empty when it is trimmed."""
    reports: list[tuple[int, float | None]] = field(default_factory=list)
    """The (step, value) that its task has reported; empty before its end. None: not finite. Trimmed, only the
    last finite one is left, if any.
    """
    source: Suggester = "algorithm"
    """Who suggested its parameters: the tuner, chance in its place, or a user."""
    space_version: int = 1
    """The version of the search space that its parameters are from."""
    hidden: bool = False
    """Whether its result is kept from the tuner: a user added it without `tell_tuner`."""
    within: str = ""
    """The running task that went on with it; empty if it has a task of its own."""
    outside: list[str] = field(default_factory=list)
    """The parameters that a user gave values outside of the space; if there are any it is never the best."""
    from_trial: int | None = None
    """The trial that it continues; None for one that begins anew."""
    from_checkpoint: CheckpointReference | None = None
    """The checkpoint of that trial that it began with; None if it began with the first step."""
    step_limit: int | None = None
    """It is over when it has reported the step before this one; None without a limit."""
    checkpoint: CheckpointReference | None = None
    """Its newest checkpoint, which another trial may continue; None before its end, and if it has none."""

    def task_of(self, search_id: str) -> str:
        """Returns the id of the task that carries it out."""
        return self.within or trial_task_id(search_id, self.number)

    def last_report(self) -> list[tuple[int, float]]:
        """Returns the newest (step, value) that is finite, all that tuners use of reports; [] without one."""
        return [(step, value) for step, value in self.reports if value is not None][-1:]


@dataclass(slots=True)
class Added:
    """A user's parameters that wait for the next slot."""

    parameters: dict[str, Any]
    """The parameters, by name."""
    tell_tuner: bool
    """Whether the tuner receives the result."""
    at: int = -1
    """Offset of TrialAdded, a cause of the suggestion; -1: unknown."""
    partial: bool = False
    """Whether the tuner draws the parameters that are left out."""


@dataclass(slots=True)
class Imported:
    """A result from another source."""

    parameters: dict[str, Any]
    """The parameters, by name."""
    value: float
    """Their value for the objective; always finite."""
    at: int
    """Offset of TrialsImported: the tuner has it for all slots that open later."""


@dataclass(slots=True)
class AssessorFailures:
    """The failures of a search's assessor."""

    rows: int = -1
    """How many rows of the feed it had processed at the newest failure; -1 before the first."""
    in_a_row: int = 0
    """The number of the newest failure in its row, from 1; an answer begins a new row. 0: none."""
    count: int = 0
    """How many failures there were in all."""
    last: tuple[str, str] = ("", "")
    """Code and message of the newest failure; empty before the first."""


@dataclass(slots=True)
class Search:
    """A search as folded from the log."""

    search_id: str
    """Its id, which is also the id of its stream."""
    spec: SearchSpec
    """What the user asked for, with all changes of limits and space since."""
    seed: int
    """What tuners draw from; set also if the user gave none."""
    started_ms: int
    """When it started: append time of SearchStarted, in ms since 1970."""
    status: SearchStatus = SearchStatus.RUNNING
    """Its state; follows from the other fields unless it is STOPPING or over."""
    trials: list[Trial] = field(default_factory=list)
    """Its trials by number; empty once it is over and shrunk."""
    opened: list[int] = field(default_factory=list)
    """The offset of the event that opened the slot of each trial, by number. The start opens the first
    ones, the end of a trial or a change of the search the others. A suggestion is made from the state at that
    offset: the same whoever makes it, and whenever.
    """
    ends: list[int] = field(default_factory=list)
    """The numbers of the trials that have ended, in the order of their ends."""
    trimmed: int = 0
    """How many of the first of `ends` are trimmed: their rows are written, and they keep what tuners need."""
    settled: list[str] = field(default_factory=list)
    """The ids of the tasks that have ended, with all of their trials, and are still kept."""
    active: Annotated[set[int], PlainSerializer(sorted, return_type=list[int])] = field(default_factory=set)
    """The numbers of the trials that have not ended."""
    stop_reason: str = ""
    """Why it was stopped: the reason of the request, or search_failed; empty before that."""
    failure: str = ""
    """Why it failed, as `code: message`; empty if it did not."""
    ended_ms: int = 0
    """When it ended: append time of SearchEnded, in ms since 1970; 0 before that."""
    best: int | None = None
    """The number of its best trial; None before one succeeded with a value, and with several objectives."""
    front: list[int] = field(default_factory=list)
    """The numbers of the trials that no other one beats in all objectives; empty with one objective."""
    debt: int = 0
    """How many slots there are beyond the concurrency: as many ends of trials open no new one."""
    changes: int = 0
    """How many changes by commands have counted: the number of the newest; 0 for none."""
    moved_at: int = -1
    """Offset of the last event that moved the open slots to itself: what was asked earlier is ignored.
    -1: none.
    """
    space_version: int = 1
    """The version of its search space; the one that it started with is 1."""
    added: list[Added] = field(default_factory=list)
    """The parameters that users added and that no trial has yet, oldest first."""
    imported: list[Imported] = field(default_factory=list)
    """The results from other sources, oldest first."""
    exhausted: bool = False
    """Whether its tuner has nothing left to suggest; False again with a new space."""
    time_is_up: bool = False
    """Whether its time limit is reached; False again if that is raised or removed."""
    paused: Literal["", "finish", "return"] = ""
    """Whether it is paused (empty: no), and whether running trials finish or return their devices."""
    paused_at_ms: int = 0
    """When the newest pause began, in ms since 1970; 0 before the first."""
    paused_ms: int = 0
    """How long it was paused in all, in ms, without the current pause: its time limit does not count it."""
    failures: int = 0
    """How many times in a row its tuner has failed for the next trial; 0 after a success or a moved slot."""
    last_failure: tuple[str, str] = ("", "")
    """Code and message of its tuner's newest failure, also after a success; empty before the first."""
    deferred: bool = False
    """Whether its tuner waits for the end of a trial before it suggests the next one."""
    learnt_at: int = -1
    """Offset of the last event that its tuner can learn from: an end or an import. -1: none."""
    assessor_failures: AssessorFailures = field(default_factory=AssessorFailures)
    """The failures of its assessor; none without one."""
    idle: list[str] = field(default_factory=list)
    """The ids of running tasks that have no trial now, in the order in which their trials ended."""
    unended: Annotated[set[int], PlainSerializer(sorted, return_type=list[int])] = field(default_factory=set)
    """The numbers of active trials whose task has ended: TrialEnded is yet to be appended."""
    asking: Annotated[set[str], PlainSerializer(sorted, return_type=list[str])] = field(default_factory=set)
    """The ids of tasks whose process waits for another trial's parameters."""
    assessor_feed: list[FeedRow] = field(default_factory=list)
    """What its assessor reads, oldest first; empty without one."""
    started_at: int = -1
    """Offset of SearchStarted; a cause of later decisions. -1: unknown."""
    changed_at: int = -1
    """Offset of the last event that changed it, except failures and deferrals of its tuner and failures of
    its assessor; a cause of later decisions. -1: none.
    """
    control_at: int = -1
    """Offset of the last event that asked running trials to stop, wait or go on; a cause of later
    decisions. -1: none.
    """
    models: dict[int, Json] = field(default_factory=dict)
    """The newest model that each of its best trials has saved, by their numbers: see `trained_models`."""
    result: dict[str, Any] = field(default_factory=dict)
    """Its `outcome`, once it is over and shrunk; empty before that."""
    counted: dict[str, int] = field(default_factory=dict)
    """Its `counts`, once it is over and shrunk; empty before that."""
    failed_at: int = -1
    """Offset of the last failure of its tuner or assessor; a cause of later decisions. -1: none."""

    @property
    def over(self) -> bool:
        """Returns whether no trial of it runs, and none will."""
        return self.status in OVER

    @property
    def closed(self) -> bool:
        """Returns whether its end is final: that of a search is."""
        return self.over

    def has_settled(self, task_id: str) -> bool:
        """Returns whether a task that is not kept has settled: whether its first trial has ended."""
        number = trial_of_task_id(self.search_id, task_id)
        if number is None or number >= len(self.trials):
            return False
        trial = self.trials[number]
        return trial.ended_at >= 0 and not trial.within

    def trim(self) -> None:
        """Leaves of ended trials what tuners need: parameters, values and the last report."""
        if self.trimmed < len(self.ends):
            for number in self.ends[self.trimmed :]:
                trial = self.trials[number]
                trial.reports, trial.others, trial.missing = [*trial.last_report()], {}, []
            self.trimmed = len(self.ends)

    def release(self) -> None:
        """Drops its trials and all that is about them, but for its outcome."""
        self.result, self.counted = self.outcome, self.counts
        for bulk in (self.trials, self.opened, self.ends, self.front, self.added, self.imported):
            bulk.clear()
        self.assessor_feed.clear()
        self.asking.clear()
        self.settled.clear()
        self.models.clear()
        self.trimmed = 0

    @property
    def counts(self) -> dict[str, int]:
        """How many of its trials have ended, by how they did."""
        ends = Counter(trial.status.value for trial in self.trials if trial.status is not None)
        return self.counted or dict(sorted(ends.items()))

    def task_of(self, number: int) -> str:
        """Returns the id of the task that carries a trial out, also of one that isn't suggested yet."""
        known = number < len(self.trials)
        return self.trials[number].task_of(self.search_id) if known else trial_task_id(self.search_id, number)

    @property
    def outcome(self) -> dict[str, Any]:
        """What it has found, for a parent stream: how many trials have ended, and the best of them.

        With several objectives, the trials that no other one beats in all of them, at most 100. `model` is
        the artifact that such a trial has saved, `trained_models` is what is known of the first 10 of these.
        """
        if self.result:
            return self.result
        best = self.front[:MAX_FRONT] if self.best is None else [self.best]
        found: list[dict[str, Any]] = [
            {"trial": trial.number, "parameters": trial.parameters}
            | ({"values": trial.values} if trial.values else {"value": trial.value})
            | ({"model": self.models[trial.number]["artifact"]} if trial.number in self.models else {})
            for trial in (self.trials[number] for number in best)
        ]
        models = [self.models[number] for number in best if number in self.models][:MAX_MODELS]
        result: dict[str, Any] = {"trials": len(self.ends), "best": found}
        result |= {TRAINED_MODELS: models} if models else {}
        return result | ({"failure": self.failure} if self.failure else {})

    @property
    def open_slots(self) -> int:
        """How many trials may begin now."""
        return max(0, min(len(self.opened), self.spec.max_trials) - len(self.trials))

    @property
    def next_trial(self) -> int | None:
        """The number of the trial that the tuner is to suggest now, if a slot is open for it.

        If a user has added a trial, and left parameters out, the tuner draws those.
        """
        if self.added:
            waits = self._takes_added and self.added[0].partial
        else:
            waits = self.status is SearchStatus.RUNNING
        return self._open_trial if waits and not self.deferred else None

    @property
    def next_added(self) -> int | None:
        """The number of the trial that a user's parameters are for, all of them, if a slot is open."""
        waits = self.added and not self.added[0].partial and self._takes_added
        return self._open_trial if waits else None

    @property
    def _takes_added(self) -> bool:
        return self.status in (SearchStatus.RUNNING, SearchStatus.TUNER_NO_MORE_TRIAL)

    @property
    def _open_trial(self) -> int | None:
        number = len(self.trials)
        return number if number < min(len(self.opened), self.spec.max_trials) else None

    @property
    def due_ms(self) -> int | None:
        """When the search has run for as long as it may; None without a limit, or while it makes no odds."""
        limit_s = self.spec.max_duration_s
        if limit_s is None or self.status is not SearchStatus.RUNNING:
            return None
        return self.started_ms + self.paused_ms + int(limit_s * 1000)

    @property
    def goal_is_reached(self) -> bool:
        """Returns whether the best value is as good as was asked for."""
        best = None if self.best is None else self.trials[self.best].value
        if best is None or self.spec.goal is None:
            return False
        return best >= self.spec.goal if self.spec.direction == "maximize" else best <= self.spec.goal


def trial_status(trial: Trial, task: Task | None) -> TrialStatus:
    """Returns the status of a trial: how it ended, else whether its task has begun."""
    if trial.status is not None:
        return trial.status
    started = task is not None and task.state in (TaskState.ACTIVE, TaskState.ENDED)
    return TrialStatus.RUNNING if started else TrialStatus.WAITING


def search_of(stream: Stream) -> Search | None:
    """Returns the search of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, Search) else None


def trial_trace(stream: Stream[Search], number: int) -> str:
    """Returns the `traceparent` of the span of a trial; it is sampled if the trace of its search is."""
    return derive_trace(stream.traceparent, stream.stream_id, str(number))
