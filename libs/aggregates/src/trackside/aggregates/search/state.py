"""The state of a search: its trials, which slots are open, and when it is over. Drawn in ARCHITECTURE.md."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import PlainSerializer

from trackside.contracts.ids import trial_task_id
from trackside.contracts.searches import (
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
from trackside.contracts.tasks import Figure
from trackside.domain.stream import Stream

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
FeedRow = tuple[int, int | str | None, float | str | None]
"""What an assessor reads: (trial, step, value) is a report, (trial, None, None) a new attempt and
(trial, status, value) an end. A value that isn't a finite number is a name: nan, inf, -inf.
"""
OVER = frozenset({SearchStatus.DONE, SearchStatus.STOPPED, SearchStatus.ERROR})
GOES_ON = frozenset({SearchStatus.RUNNING, SearchStatus.PAUSED})  # a search doesn't end in these


@dataclass(slots=True)
class Trial:
    """One trial; `ended_at` is the offset of its TrialEnded, -1 before.

    `hidden` says that its result is not for the tuner, `space_version` of which space its parameters are.
    `values` are those of the objectives, where there are several; `others` all numbers beside the value.
    `within` is the task that went on with it, if it has none of its own.
    """

    number: int
    parameters: dict[str, Any]
    suggested_at: int
    suggested_ms: int
    ended_at: int = -1
    ended_ms: int = 0
    status: TrialStatus | None = None
    value: float | None = None
    non_finite: str = ""
    values: list[Figure | None] = field(default_factory=list)
    others: dict[str, Figure] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    reports: list[tuple[int, float | None]] = field(default_factory=list)
    source: Suggester = "algorithm"
    space_version: int = 1
    hidden: bool = False
    within: str = ""

    def task_of(self, search_id: str) -> str:
        """Gives the id of the task that carries it out."""
        return self.within or trial_task_id(search_id, self.number)


@dataclass(slots=True)
class Added:
    """A user's parameters that wait for the next slot, and the offset at which the search had them."""

    parameters: dict[str, Any]
    tell_tuner: bool
    at: int = -1


@dataclass(slots=True)
class Imported:
    """A result from elsewhere, and the offset at which the search had it."""

    parameters: dict[str, Any]
    value: float
    at: int


@dataclass(slots=True)
class AssessorFailures:
    """How often an assessor has failed, how often in a row, up to which row of its past, and how at last."""

    rows: int = -1
    in_a_row: int = 0
    count: int = 0
    last: tuple[str, str] = ("", "")


@dataclass(slots=True)
class Search:
    """A search as the log has it.

    `opened[n]` is the offset of the event that opened the slot of trial n: the start of the search for
    the first ones, the end of an earlier trial or a change of the search for the rest. Trial n is asked upon
    the state at that offset, so a suggestion is the same whoever asks, and whenever. `ends` are trial numbers
    in the order in which the trials ended, `active` those that have not.

    `debt` counts the slots that there are beyond the concurrency: so many ends open none. `changes` counts
    what commands have changed; `moved_at` is the offset of the last change that moved the open slots to
    itself, so that what was asked before it doesn't count. `paused` says what became of the running trials.

    `best` is a trial, unless there are several objectives: then `front` are those that no other beats.

    `failures` counts how often the tuner has failed for the next trial, `last_failure` is the last one's code
    and message. While `deferred` the tuner waits for an end; `learnt_at` is the offset of the last thing that
    it could learn from. `assessor_failures` counts its assessor's failures. `idle` are the tasks that
    run though their trial is over, in the order in which these ended, `asking` those whose process waits for
    another trial's parameters. `unended` are the open trials whose task has ended. `assessor_feed` is what
    its assessor reads; empty without one.

    Offsets that decisions name as their cause, -1 for none: `started_at` of its start, `changed_at` of the
    last event that changed it, but for failures of its tuner and assessor: `failed_at` is of the last of
    these. `control_at` is of the last event that asked running trials to stop, to wait or to go on.
    """

    search_id: str
    spec: SearchSpec
    seed: int
    started_ms: int
    status: SearchStatus = SearchStatus.RUNNING
    trials: list[Trial] = field(default_factory=list)
    opened: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    active: Annotated[set[int], PlainSerializer(sorted, return_type=list[int])] = field(default_factory=set)
    stop_reason: str = ""
    failure: str = ""
    ended_ms: int = 0
    best: int | None = None
    front: list[int] = field(default_factory=list)
    debt: int = 0
    changes: int = 0
    moved_at: int = -1
    space_version: int = 1
    added: list[Added] = field(default_factory=list)
    imported: list[Imported] = field(default_factory=list)
    exhausted: bool = False
    time_is_up: bool = False
    paused: Literal["", "finish", "return"] = ""
    paused_at_ms: int = 0
    paused_ms: int = 0
    failures: int = 0
    last_failure: tuple[str, str] = ("", "")
    deferred: bool = False
    learnt_at: int = -1
    assessor_failures: AssessorFailures = field(default_factory=AssessorFailures)
    idle: list[str] = field(default_factory=list)
    unended: Annotated[set[int], PlainSerializer(sorted, return_type=list[int])] = field(default_factory=set)
    asking: Annotated[set[str], PlainSerializer(sorted, return_type=list[str])] = field(default_factory=set)
    assessor_feed: list[FeedRow] = field(default_factory=list)
    started_at: int = -1
    changed_at: int = -1
    control_at: int = -1
    failed_at: int = -1

    @property
    def over(self) -> bool:
        """Says whether no trial of it runs, and none will."""
        return self.status in OVER

    @property
    def closed(self) -> bool:
        """Says whether its end is final: that of a search is."""
        return self.status in OVER  # not `over`, which takes longer: the fold asks for each record

    def release(self) -> None:
        """Drops its trials and all that is about them."""
        for bulk in (self.trials, self.opened, self.ends, self.front, self.added, self.imported):
            bulk.clear()
        self.assessor_feed.clear()
        self.asking.clear()

    def task_of(self, number: int) -> str:
        """Gives the id of the task that carries a trial out, also of one that isn't suggested yet."""
        known = number < len(self.trials)
        return self.trials[number].task_of(self.search_id) if known else trial_task_id(self.search_id, number)

    @property
    def open_slots(self) -> int:
        """How many trials may begin now."""
        return max(0, min(len(self.opened), self.spec.max_trials) - len(self.trials))

    @property
    def next_trial(self) -> int | None:
        """The number of the trial that the tuner is to suggest now, if a slot is open for it."""
        waits = self.status is SearchStatus.RUNNING and not self.added and not self.deferred
        return self._open_trial if waits else None

    @property
    def next_added(self) -> int | None:
        """The number of the trial that a user's parameters are for, if some wait and a slot is open."""
        waits = self.added and self.status in (SearchStatus.RUNNING, SearchStatus.TUNER_NO_MORE_TRIAL)
        return self._open_trial if waits else None

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
        """Says whether the best value is as good as was asked for."""
        best = None if self.best is None else self.trials[self.best].value
        if best is None or self.spec.goal is None:
            return False
        return best >= self.spec.goal if self.spec.direction == "maximize" else best <= self.spec.goal


def search_of(stream: Stream) -> Search | None:
    """Returns the search of a stream, or None if the stream has none."""
    return stream.root if isinstance(stream.root, Search) else None
