"""The causes of a search's events in a log that names none, and these events as short lines."""

from collections.abc import Mapping, Sequence

from trackside.aggregates.search.advice.advice_messages import (
    AssessmentFailed,
    SuggestionDeferred,
    SuggestionFailed,
)
from trackside.aggregates.search.messages import (
    TRIAL,
    AddTrial,
    ImportTrials,
    PauseSearch,
    RequestTrials,
    ResumeSearch,
    SearchExhausted,
    SearchFailed,
    SearchPaused,
    SearchResumed,
    SearchSpaceUpdated,
    SearchStarted,
    SearchStopRequested,
    SearchTimeLimitReached,
    SearchUpdated,
    StartSearch,
    StopSearch,
    StopTrial,
    TrialAdded,
    TrialEnded,
    TrialsImported,
    TrialsRequested,
    TrialSuggested,
    UpdateSearch,
    UpdateSearchSpace,
)
from trackside.aggregates.search.state import Search
from trackside.contracts.envelope.ids import trial_task_id
from trackside.contracts.envelope.message import Command, Message
from trackside.contracts.envelope.parts import number_of
from trackside.contracts.tasks.tasks import TaskStopRequested, TaskSubmitted
from trackside.domain.display.short_text import named_values
from trackside.domain.streams.causality import Causality
from trackside.domain.streams.stream import Stream


class SearchCausality(Causality[Search]):
    """What a suggestion, the end of a trial or of the search rests on."""

    commanded: Mapping[type[Message], tuple[type[Command], ...]] = {
        SearchStarted: (StartSearch,),
        SearchStopRequested: (StopSearch,),
        SearchPaused: (PauseSearch,),
        SearchResumed: (ResumeSearch,),
        SearchSpaceUpdated: (UpdateSearchSpace,),
        SearchUpdated: (
            UpdateSearch,
            StartSearch,
        ),
        TrialAdded: (
            AddTrial,
            StartSearch,
        ),
        TrialsImported: (
            ImportTrials,
            StartSearch,
        ),
        TrialsRequested: (RequestTrials,),
        TaskStopRequested: (StopTrial,),
    }
    decided = frozenset({TaskStopRequested})
    follows_any = frozenset({AssessmentFailed})

    def cause_of(self, stream: Stream[Search], event: Message) -> int:
        """Returns the offset of what one of its events rests on, or one of its tasks; -1 for nothing."""
        search = stream.root
        match event:
            case TaskSubmitted():
                return _suggestion(search, number_of(event.part, TRIAL))
            case TrialSuggested() | SuggestionFailed() | SuggestionDeferred():
                return _slot(search, event.trial)
            case SearchExhausted():
                return _slot(search, event.trials)
            case SearchFailed() if search.failed_at >= 0:
                return search.failed_at
            case SearchTimeLimitReached():
                return search.started_at
            case TrialEnded(trial=number):
                task = stream.tasks.get(search.task_of(number))
                return -1 if task is None else task.changed_at
            case _:
                return search.changed_at

    def also_follows(self, stream: Stream[Search], event: Message) -> Sequence[int]:
        """Returns the end of the trial that another one continues."""
        if not isinstance(event, TrialSuggested) or event.from_checkpoint is None:
            return ()
        before = event.from_checkpoint.trial
        return (stream.root.trials[before].ended_at,) if before < len(stream.root.trials) else ()

    def last_control(self, root: Search) -> int:
        """Returns the offset of the last event that asked trials to stop, wait or go on; -1 for none."""
        return root.control_at

    def task_of(self, stream_id: str, event: Message) -> str:
        """Returns the id of a trial's task, which stands for the trial."""
        if isinstance(event, TrialSuggested | TrialEnded):
            return trial_task_id(stream_id, event.trial)
        return ""

    def text_of(self, event: Message) -> str:
        """Returns what starts, or what is tried; other events are their fields."""
        match event:
            case SearchStarted(search=spec, seed=seed):
                return f"{spec.max_trials} trials, {spec.concurrency} at once, {spec.tuner.name}, seed {seed}"
            case TrialSuggested():
                return f"trial {event.trial}: {named_values(event.parameters)}"
            case _:
                return ""


def _suggestion(search: Search, number: int | None) -> int:
    if number is None or number >= len(search.trials):
        return -1
    return search.trials[number].suggested_at


def _slot(search: Search, number: int) -> int:
    """Returns what opened the slot of a trial; the last one if there is none for it."""
    if 0 <= number < len(search.opened):
        return search.opened[number]
    return search.opened[-1] if search.opened else search.started_at
