"""The search as an aggregate type: its events and commands, who folds and who decides them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast, get_args

from trackside.aggregates.search import evolve, react
from trackside.aggregates.search.advice import advice
from trackside.aggregates.search.advice.advice_messages import (
    AnswerAssessment,
    AnswerSuggestion,
    AssessmentRequested,
    SuggestionRequested,
)
from trackside.aggregates.search.advice.assessor_feed import row_of_task
from trackside.aggregates.search.causes import SearchCausality
from trackside.aggregates.search.commands import start, update
from trackside.aggregates.search.invariants import SearchInvariants
from trackside.aggregates.search.messages import (
    TRIAL,
    SearchEnded,
    SearchStarted,
    SearchStopRequested,
    StartSearch,
    StopSearch,
    TrialEnded,
    TrialSuggested,
)
from trackside.aggregates.search.rows import SearchRows, TrialRows
from trackside.aggregates.search.spec import SPECS, stop_command
from trackside.aggregates.search.state import Change, Search, SearchEvent
from trackside.aggregates.search.trials import changes, deadlines
from trackside.aggregates.search.view import VIEW
from trackside.contracts.envelope.message import Command, Event, Json, Message, Record
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.tasks.tasks import TaskSubmitted
from trackside.domain.folding.aggregate import AggregateType, Handler
from trackside.domain.folding.lookup import Lookup
from trackside.domain.folding.signals import Signal
from trackside.domain.outcome import Outcome
from trackside.domain.proposal import Proposal
from trackside.domain.streams.forgetting import Totals
from trackside.domain.streams.stream import Stream
from trackside.domain.tasks.task import Task, TaskState

_CHANGES = frozenset(get_args(Change))
_ADVICE = frozenset(get_args(advice.Advice))


class SearchType(AggregateType[Search]):
    """Searches."""

    kind = "search"
    state = Search
    begins_with = SearchStarted
    ends_with = SearchEnded
    events = (*get_args(SearchEvent), *get_args(advice.Advice))
    commands: Mapping[type[Command], Handler] = {
        StartSearch: start.start,
        StopSearch: update.stop,
        **dict.fromkeys(get_args(update.Changing), update.change),
    }
    opened_by = frozenset[type[Command]]((StartSearch,))
    other_messages: Mapping[str, Sequence[type[Message]]] = {
        "suggestion_requests": (SuggestionRequested,),
        "suggestions": (AnswerSuggestion,),
        "assessment_requests": (AssessmentRequested,),
        "assessments": (AnswerAssessment,),
    }
    may_be_too_late = (SearchStopRequested,)
    causes = SearchCausality()
    specs = SPECS
    invariants = SearchInvariants
    child_begins_by = StartSearch
    rows = (SearchRows(), TrialRows())
    view = VIEW

    def begin(self, stream_id: str, event: SearchStarted, record: Record) -> Search:
        """Makes the search of a SearchStarted event, with its first slots open."""
        return evolve.begin(stream_id, event, record)

    def evolve(self, root: Search, tasks: dict[str, Task], record: Record) -> Outcome:
        """Folds an event of the search, a change of it, or what its tuner or assessor answered."""
        event, kind = record.message, type(record.message)
        if kind in _CHANGES:
            return changes.evolve(root, cast(Change, event), record)
        if kind in _ADVICE:
            return advice.evolve(root, cast(advice.Advice, event), record)
        return evolve.evolve(root, tasks, record)

    def admits(self, root: Search, event: TaskSubmitted) -> bool:
        """Returns whether a task is that of the newest trial, with its checkpoint; the trial has no other."""
        newest = len(root.trials) - 1
        if newest < 0 or root.trials[newest].within or number_of(event.part, TRIAL) != newest:
            return False
        trial = root.trials[newest]
        if trial.from_trial is not None and event.checkpoint != trial.from_checkpoint:
            return False
        return event.task_id == root.task_of(newest) and not root.has_settled(event.task_id)

    def task_changed(self, root: Search, task: Task, record: Record, reports: int) -> None:
        """Keeps what the assessor reads, and which tasks have ended or ask for another trial."""
        if len(task.reports) != reports:
            root.assessor_feed += row_of_task(root, task, reports, record.message)
        if task.requested or task.state is TaskState.ENDED:
            evolve.note_task(root, task, record)

    def stop_command(self, task: str, reason: str) -> Command | None:
        """Returns what stops the search; the tasks of a search are stopped as trials."""
        return None if task else stop_command(reason)

    def changed_tasks(self, root: Search, event: Event) -> Iterable[str]:
        """Returns the task that another trial was assigned to, or that runs on without the one that ended."""
        if isinstance(event, TrialSuggested) and event.within:
            return (event.within,)
        if isinstance(event, TrialEnded) and root.idle and root.idle[-1] == root.task_of(event.trial):
            return (root.idle[-1],)
        return ()

    def outcome(self, root: Search) -> tuple[str, Json]:
        """Returns its status and what it has found."""
        return root.status.value, root.outcome

    def totals(self, stream: Stream[Search]) -> Totals:
        """Returns its status, and how many trials have ended, by how they did."""
        root, ends = stream.root, stream.root.counts
        began, ended, total = root.started_ms, root.ended_ms, root.spec.max_trials
        return Totals(root.status.value, "trials", sum(ends.values()), ends, total, began, ended)

    def signals(self, root: Search) -> Iterable[Signal]:
        """Yields that it is over, and its best trial."""
        yield from super().signals(root)
        if root.best is not None:
            yield Signal("best", str(root.best), root.outcome["best"][0])

    def lacking(self, stream: Stream[Search], lookup: Lookup) -> Iterable[Proposal]:
        """Yields what the search lacks now."""
        return react.lacking(stream)

    def next_due_ms(self, stream: Stream[Search]) -> int | None:
        """Returns when the next limit of the search or of one of its trials is reached."""
        return deadlines.next_due_ms(stream)

    def due(self, stream: Stream[Search], now_ms: int) -> Iterable[Proposal]:
        """Yields the limits that are reached."""
        return deadlines.reached(stream, now_ms)


SEARCH = SearchType()
