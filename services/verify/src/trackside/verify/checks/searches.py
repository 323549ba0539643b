"""INV-12 and INV-10 of searches: limits, the order of trials, and legal transitions."""

from dataclasses import dataclass, field
from typing import Any

from trackside.aggregates.search.advice_messages import AssessmentFailed, SuggestionDeferred, SuggestionFailed
from trackside.aggregates.search.messages import (
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchPaused,
    SearchResumed,
    SearchSpaceUpdated,
    SearchSpec,
    SearchStarted,
    SearchStopRequested,
    SearchTimeLimitReached,
    SearchUpdated,
    TrialAdded,
    TrialEnded,
    TrialsImported,
    TrialsRequested,
    TrialStatus,
    TrialSuggested,
)
from trackside.contracts.ids import trial_task_id
from trackside.contracts.message import Record
from trackside.verify.checks.task_history import TaskHistory, TaskPhase
from trackside.verify.findings import Findings

_LIMITS = ("concurrency", "max_trials", "max_duration_s", "max_trial_duration_s", "goal")
SearchChangeEvent = (
    TrialsRequested
    | SearchSpaceUpdated
    | TrialsImported
    | TrialAdded
    | SearchUpdated
    | SearchPaused
    | SearchResumed
)
OngoingSearchEvent = (
    TrialSuggested
    | TrialEnded
    | SearchExhausted
    | SearchTimeLimitReached
    | SearchStopRequested
    | SearchFailed
    | SearchEnded
    | SuggestionFailed
    | SuggestionDeferred
    | AssessmentFailed
    | SearchChangeEvent
)


@dataclass(slots=True)
class SearchHistory:
    """The state of a search: its trials, and the changes that commands have made.

    `slots` is the limit of active trials: the concurrency, and what was requested beyond it or is left from
    before the concurrency was lowered, until as many trials have ended. `failures` are the tuner's for the
    next trial. While `deferred` the tuner waits for a result after offset `last_result_at`.
    `assessor_failures` is the rows that the assessor had when it failed last, and its failures in a row.
    `reused_tasks` maps trials to the tasks that they reuse.
    """

    search_id: str
    spec: SearchSpec
    started_ms: int
    slots: int
    suggested: int = 0
    active: set[int] = field(default_factory=set)
    exhausted: bool = False
    stopping: bool = False
    changes: int = 0
    space_version: int = 1
    added: list[dict[str, Any]] = field(default_factory=list)
    paused: bool = False
    paused_at_ms: int = 0
    paused_ms: int = 0
    time_limit_reached: bool = False
    best: float | None = None
    failures: int = 0
    deferred: bool = False
    last_result_at: int = -1
    assessor_failures: tuple[int, int] = (0, 0)
    reused_tasks: dict[int, str] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Returns whether a limit is reached, so that no further trial may begin."""
        return self.suggested >= self.spec.max_trials or self.time_limit_reached or self._goal_reached

    @property
    def expects_trials(self) -> bool:
        """Returns whether further trials may begin."""
        if self.stopping or self.paused:
            return self.paused and not self.stopping
        return not self.is_full and (not self.exhausted or bool(self.added))

    @property
    def awaits_tuner(self) -> bool:
        """Returns whether the next trial is one that the tuner suggests."""
        waits = self.expects_trials and not self.paused and not self.exhausted
        return waits and not self.added and not self.deferred

    @property
    def due_ms(self) -> int | None:
        """When its time limit ends, ms since 1970; a pause moves it."""
        limit_s = self.spec.max_duration_s
        return None if limit_s is None else self.started_ms + self.paused_ms + int(limit_s * 1000)

    @property
    def _goal_reached(self) -> bool:
        if self.best is None or self.spec.goal is None:
            return False
        return self.is_as_good(self.best, self.spec.goal)

    def is_as_good(self, value: float, other: float) -> bool:
        """Returns whether a value is at least as good as another."""
        return value >= other if self.spec.direction == "maximize" else value <= other


def search_history(search_id: str, event: SearchStarted, record: Record) -> SearchHistory:
    """Returns the history of a search that starts."""
    return SearchHistory(search_id, event.search, record.append_time_ms, event.search.concurrency)


@dataclass(slots=True)
class SearchChecks:
    """Checks events of searches."""

    findings: Findings

    def take(
        self, search: SearchHistory, tasks: dict[str, TaskHistory], event: OngoingSearchEvent, record: Record
    ) -> None:
        """Checks an event of a search."""
        match event:
            case TrialSuggested():
                self._suggested(search, event, record)
                if event.within:
                    self._reuse_task(search, tasks.get(event.within), event, record)
            case TrialEnded():
                self._trial_ended(search, tasks, event, record)
            case SearchExhausted():
                if (
                    search.exhausted
                    or not search.expects_trials
                    or search.paused
                    or event.trials != search.suggested
                ):
                    self.findings.illegal(record, f"{search.suggested} trials were suggested")
                search.exhausted = True
            case SearchTimeLimitReached():
                if search.paused or event.due_ms != search.due_ms or record.append_time_ms < event.due_ms:
                    self.findings.illegal(record, f"its time is up at {search.due_ms}")
                search.time_limit_reached = True
            case SearchStopRequested() | SearchFailed():
                if search.stopping:
                    self.findings.illegal(record, "the search is stopping already")
                search.stopping = True
            case SearchEnded():
                if search.active or search.expects_trials:
                    active = ", ".join(str(trial) for trial in sorted(search.active)) or "none"
                    message = f"trials that go on: {active}; more may come: {search.expects_trials}"
                    self.findings.illegal(record, message)
            case SuggestionFailed() | SuggestionDeferred():
                self._tuner_answered(search, event, record)
            case AssessmentFailed():
                failed = (event.rows, event.failure)
                follows = failed > search.assessor_failures and event.failure in (
                    1,
                    search.assessor_failures[1] + 1,
                )
                if search.spec.assessor is None or not follows:
                    self.findings.illegal(record, "it follows no failure of an assessor")
                search.assessor_failures = failed
            case _:
                self._changed(search, event, record)

    def _suggested(self, search: SearchHistory, event: TrialSuggested, record: Record) -> None:
        self.findings.checked["INV-12"] += 1
        added_by_user = event.source == "customized"
        if not search.expects_trials or search.paused or (search.exhausted and not added_by_user):
            self.findings.illegal(record, "no further trial may begin")
        if search.deferred and not added_by_user:
            self.findings.illegal(record, "the tuner waits for more to learn from")
        policy = search.spec.tuner.on_failure
        if event.source == "fallback" and (policy.then != "random" or search.failures <= policy.retries):
            self.findings.illegal(record, f"drawn at random after {search.failures} failures of the tuner")
        search.failures = 0
        if added_by_user != bool(search.added) or (added_by_user and event.parameters != search.added[0]):
            self.findings.illegal(record, f"{len(search.added)} trials that users added wait, in their order")
        if event.trial != search.suggested:
            message = f"trial {event.trial} comes after {search.suggested} trials"
            self.findings.add("INV-12", record, message)
        search.suggested += 1
        search.active.add(event.trial)
        del search.added[: int(added_by_user)]
        if search.suggested > search.spec.max_trials:
            message = f"{search.suggested} trials, the limit is {search.spec.max_trials}"
            self.findings.add("INV-12", record, message)
        self.findings.check_concurrency(len(search.active), search.slots, "trials", record)

    def _trial_ended(
        self, search: SearchHistory, tasks: dict[str, TaskHistory], event: TrialEnded, record: Record
    ) -> None:
        if event.trial not in search.active:
            self.findings.add("INV-12", record, f"trial {event.trial} ends, and was not going on")
        search.active.discard(event.trial)
        search.slots = max(search.spec.concurrency, search.slots - 1)
        self._result_added(search, record)
        value = event.value if event.status is TrialStatus.SUCCEEDED else None
        if value is not None and (search.best is None or search.is_as_good(value, search.best)):
            search.best = value
        task = tasks.get(search.reused_tasks.get(event.trial) or trial_task_id(search.search_id, event.trial))
        if (
            task is None
            or task.trial != event.trial
            or not (task.phase is TaskPhase.ENDED or task.awaits_parameters)
        ):
            self.findings.illegal(record, f"trial {event.trial} ends before its task")
        elif task.phase is not TaskPhase.ENDED:
            task.release()

    def _reuse_task(
        self, search: SearchHistory, task: TaskHistory | None, event: TrialSuggested, record: Record
    ) -> None:
        """Checks that a task may be reused for another trial."""
        search.reused_tasks[event.trial] = event.within
        if (
            task is None
            or not (task.idle and task.awaits_parameters)
            or task.stop_requested
            or task.end_requested
        ):
            self.findings.illegal(record, f"task {event.within} doesn't wait for another trial")
        else:
            task.assign_trial(event.trial)

    def _changed(self, search: SearchHistory, event: SearchChangeEvent, record: Record) -> None:
        if search.stopping or event.change != search.changes + 1:
            self.findings.illegal(record, f"change {event.change} comes after {search.changes} changes")
        search.changes = event.change
        match event:
            case TrialsRequested():
                search.slots += event.count
            case TrialsImported():
                self._result_added(search, record)
            case TrialAdded():
                search.added.append(event.parameters)
            case SearchSpaceUpdated():
                if event.space_version != search.space_version + 1:
                    self.findings.illegal(record, f"the space is in version {search.space_version}")
                search.space_version, search.exhausted = event.space_version, False
                self._reset_tuner(search)
            case SearchUpdated():
                self._updated(search, event, record)
            case SearchPaused() if not search.paused:
                search.paused, search.paused_at_ms = True, record.append_time_ms
            case SearchResumed():
                if search.paused:
                    search.paused_ms += record.append_time_ms - search.paused_at_ms
                search.paused = False
                self._reset_tuner(search)

    def _tuner_answered(
        self, search: SearchHistory, event: SuggestionFailed | SuggestionDeferred, record: Record
    ) -> None:
        if not search.awaits_tuner or event.trial != search.suggested:
            self.findings.illegal(record, f"no tuner was asked for trial {event.trial}")
        if isinstance(event, SuggestionFailed):
            if event.failure != search.failures + 1:
                self.findings.illegal(record, f"it comes after {search.failures} failures")
            search.failures = event.failure
            return
        if not search.active and search.last_result_at <= event.seen:
            self.findings.illegal(record, "nothing goes on that the tuner could wait for")
        search.deferred, search.failures = search.last_result_at <= event.seen, 0

    def _result_added(self, search: SearchHistory, record: Record) -> None:
        search.last_result_at = record.offset
        if search.deferred:
            self._reset_tuner(search)

    def _reset_tuner(self, search: SearchHistory) -> None:
        search.deferred, search.failures = False, 0

    def _updated(self, search: SearchHistory, event: SearchUpdated, record: Record) -> None:
        growth = event.concurrency - search.spec.concurrency
        least = event.concurrency if growth >= 0 else len(search.active)
        search.slots = max(least, search.slots + min(growth, 0))
        search.spec = search.spec.model_copy(update={name: getattr(event, name) for name in _LIMITS})
        if search.due_ms is None or record.append_time_ms < search.due_ms:
            search.time_limit_reached = False
        self._reset_tuner(search)
