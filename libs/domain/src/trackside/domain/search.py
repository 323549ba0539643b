"""A search: its trials, which slots are open, and when it is over. Drawn in ARCHITECTURE.md."""

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import PlainSerializer

from trackside.contracts.ids import trial_task_id
from trackside.contracts.message import Record
from trackside.contracts.searches import (
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchSpec,
    SearchStarted,
    SearchStatus,
    SearchStopRequested,
    TrialEnded,
    TrialStatus,
    TrialSuggested,
)
from trackside.domain.outcome import Outcome
from trackside.domain.task import Task, TaskState

SearchEvent = (
    SearchStarted
    | TrialSuggested
    | TrialEnded
    | SearchExhausted
    | SearchStopRequested
    | SearchFailed
    | SearchEnded
)
OVER = frozenset({SearchStatus.DONE, SearchStatus.STOPPED, SearchStatus.ERROR})


@dataclass(slots=True)
class Trial:
    """One trial; `ended_at` is the offset of its TrialEnded, -1 before."""

    number: int
    parameters: dict[str, Any]
    suggested_at: int
    suggested_ms: int
    ended_at: int = -1
    ended_ms: int = 0
    status: TrialStatus | None = None
    value: float | None = None
    reports: list[tuple[int, float | None]] = field(default_factory=list)


@dataclass(slots=True)
class Search:
    """A search as the log has it.

    `opened[n]` is the offset of the event that opened the slot of trial n: the start of the search for
    the first ones, the end of an earlier trial for the rest. Trial n is asked upon the state at that
    offset, so a suggestion is the same whoever asks, and whenever. `ends` are trial numbers in the order
    in which the trials ended, `active` those that have not.
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

    @property
    def next_trial(self) -> int | None:
        """The number of the trial to suggest now, if a slot is open for it."""
        number = len(self.trials)
        is_open = number < min(len(self.opened), self.spec.max_trials)
        return number if is_open and self.status is SearchStatus.RUNNING else None


def started(search_id: str, event: SearchStarted, record: Record) -> Search:
    """Makes the search of a SearchStarted event, with its first slots open."""
    search = Search(search_id, event.search, event.seed, record.append_time_ms)
    search.opened = [record.offset] * event.search.concurrency
    return search


def evolve(search: Search, tasks: dict[str, Task], record: Record) -> Outcome:
    """Folds one event into the search; changes it only if it returns APPLIED."""
    if search.status in OVER:
        return Outcome.OVERTAKEN
    event = record.message
    match event:
        case SearchStarted():
            return Outcome.DUPLICATE
        case TrialSuggested():
            return _suggested(search, event, record)
        case TrialEnded():
            return _trial_ended(search, tasks, event, record)
        case SearchExhausted():
            return _exhausted(search, event)
        case SearchStopRequested():
            return _stopping(search, event.reason or "user", "")
        case SearchFailed():
            return _stopping(search, "search_failed", f"{event.code}: {event.message}")
        case SearchEnded():
            return _search_ended(search, event, record)
        case _:
            return Outcome.OVERTAKEN


def _suggested(search: Search, event: TrialSuggested, record: Record) -> Outcome:
    if event.trial < len(search.trials):
        return Outcome.DUPLICATE
    if event.trial != search.next_trial:
        return Outcome.OVERTAKEN
    search.trials.append(Trial(event.trial, event.parameters, record.offset, record.append_time_ms))
    search.active.add(event.trial)
    if len(search.trials) == search.spec.max_trials:
        search.status = SearchStatus.NO_MORE_TRIAL
    return Outcome.APPLIED


def _trial_ended(search: Search, tasks: dict[str, Task], event: TrialEnded, record: Record) -> Outcome:
    if not 0 <= event.trial < len(search.trials):
        return Outcome.OVERTAKEN
    trial = search.trials[event.trial]
    if trial.ended_at >= 0:
        return Outcome.DUPLICATE
    task = tasks.get(trial_task_id(search.search_id, event.trial))
    if task is None or task.state is not TaskState.ENDED:
        return Outcome.OVERTAKEN
    trial.ended_at = record.offset
    trial.ended_ms = record.append_time_ms
    trial.status = event.status
    trial.value = event.value
    trial.reports = task.reports
    search.active.discard(event.trial)
    search.ends.append(event.trial)
    search.opened.append(record.offset)
    if _is_better(search, trial):
        search.best = trial.number
    return Outcome.APPLIED


def _is_better(search: Search, trial: Trial) -> bool:
    if trial.value is None or trial.status is not TrialStatus.SUCCEEDED:
        return False
    best = None if search.best is None else search.trials[search.best].value
    if best is None:
        return True
    return trial.value > best if search.spec.direction == "maximize" else trial.value < best


def _exhausted(search: Search, event: SearchExhausted) -> Outcome:
    if search.status is not SearchStatus.RUNNING or event.trials != len(search.trials):
        return Outcome.OVERTAKEN
    search.status = SearchStatus.TUNER_NO_MORE_TRIAL
    return Outcome.APPLIED


def _stopping(search: Search, reason: str, failure: str) -> Outcome:
    if search.status is SearchStatus.STOPPING:
        return Outcome.DUPLICATE
    search.status = SearchStatus.STOPPING
    search.stop_reason = reason
    search.failure = failure
    return Outcome.APPLIED


def _search_ended(search: Search, event: SearchEnded, record: Record) -> Outcome:
    if search.status is SearchStatus.RUNNING or search.active or event.status not in OVER:
        return Outcome.OVERTAKEN
    search.status = event.status
    search.ended_ms = record.append_time_ms
    return Outcome.APPLIED
