"""INV-12 and INV-10 of searches: limits, the order of trials, and legal transitions."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from trackside.aggregates.search import agreement
from trackside.aggregates.search.advice.advice_messages import (
    AssessmentFailed,
    SuggestionDeferred,
    SuggestionFailed,
)
from trackside.aggregates.search.messages import (
    TRIAL,
    AddTrial,
    PauseSearch,
    RequestTrials,
    ResumeSearch,
    SearchEnded,
    SearchExhausted,
    SearchFailed,
    SearchPaused,
    SearchResumed,
    SearchSpaceUpdated,
    SearchStarted,
    SearchStatus,
    SearchStopRequested,
    SearchTimeLimitReached,
    SearchUpdated,
    StopSearch,
    TrialAdded,
    TrialCheckpoint,
    TrialEnded,
    TrialsImported,
    TrialsRequested,
    TrialStatus,
    TrialSuggested,
    UpdateSearch,
    UpdateSearchSpace,
)
from trackside.contracts.envelope.ids import trial_task_id
from trackside.contracts.envelope.message import Message, Record
from trackside.contracts.envelope.parts import Part, number_of
from trackside.contracts.tasks.tasks import TaskContinued, TaskSubmitted
from trackside.domain.checks.findings import Findings
from trackside.domain.checks.invariants import AggregateInvariants, CheckedTask
from trackside.domain.proposal import parse_cause


class SearchInvariants(AggregateInvariants):
    """Keeps the trials of a search, and the changes that commands have made.

    `slots` is the limit of active trials: the concurrency, and what was requested beyond it or is left from
    before the concurrency was lowered, until as many trials have ended. `failures` are the tuner's for the
    next trial. While `deferred` the tuner waits for a result after offset `last_result_at`.
    `assessor_failures` is the rows that the assessor had when it failed last, and its failures in a row.
    `reused_tasks` maps trials to the tasks that they reuse, `origins` to what they continue, `step_limits` to
    the steps that they may have.
    """

    def __init__(self, record: Record, tasks: Mapping[str, CheckedTask], findings: Findings) -> None:
        """Begins with the record of SearchStarted."""
        super().__init__(record, tasks, findings)
        started = cast(SearchStarted, record.message)
        self.spec = started.search
        self.is_child = parse_cause(started.command_id) is not None
        seed = agreement.default_seed(self.stream_id) if self.spec.seed is None else self.spec.seed
        findings.compare(record, "the seed", started.seed, seed)
        self.started_ms = record.append_time_ms
        self.slots = self.spec.concurrency
        self.suggested = 0
        self.active: set[int] = set()
        self.exhausted = False
        self.stopping = False
        self.space_version = 1
        self.added: list[TrialAdded] = []
        self.outside: set[int] = set()
        self.paused = False
        self.paused_at_ms = 0
        self.paused_ms = 0
        self.time_limit_reached = False
        self.best: float | None = None
        self.failures = 0
        self.deferred = False
        self.last_result_at = -1
        self.assessor_failures, self.last_failure = (0, 0), ("", "")
        self.reused_tasks: dict[int, str] = {}
        self.origins: dict[int, TrialCheckpoint] = {}
        self.step_limits: dict[int, int | None] = {}
        self.newest: TrialSuggested | None = None
        self.failed = self.over = False

    def take(self, event: Message, record: Record) -> None:
        """Checks an event of the search after its first one."""
        match event:
            case TrialSuggested():
                self._suggested(event, record)
                if event.within:
                    self._reuse_task(event, record)
            case TrialEnded():
                self._trial_ended(event, record)
            case SearchExhausted():
                if self.exhausted or not self.expects_trials or self.paused or event.trials != self.suggested:
                    self.findings.illegal(record, f"{self.suggested} trials were suggested")
                self._check_seen(event, record)
                self.exhausted = True
            case SearchTimeLimitReached():
                if self.paused or event.due_ms != self.due_ms or record.append_time_ms < event.due_ms:
                    self.findings.illegal(record, f"its time is up at {self.due_ms}")
                self.time_limit_reached = True
            case SearchStopRequested() | SearchFailed():
                if self.stopping:
                    self.findings.illegal(record, "the search is stopping already")
                self.stopping = True
                if isinstance(event, SearchFailed):
                    said = event.code, event.message.endswith(self.last_failure[1])
                    self.findings.compare(record, "the reason", said, (self.last_failure[0], True))
                    self.failed = True
            case SearchEnded():
                self._ended(event, record)
                if self.active or self.expects_trials:
                    active = ", ".join(str(trial) for trial in sorted(self.active)) or "none"
                    message = f"trials that go on: {active}; more may come: {self.expects_trials}"
                    self.findings.illegal(record, message)
            case SuggestionFailed() | SuggestionDeferred():
                self._tuner_answered(event, record)
            case AssessmentFailed():
                failed = (event.rows, event.failure)
                follows = failed > self.assessor_failures and event.failure in (
                    1,
                    self.assessor_failures[1] + 1,
                )
                if self.spec.assessor is None or not follows:
                    self.findings.illegal(record, "it follows no failure of an assessor")
                self._check_seen(event, record)
                self.assessor_failures, self.last_failure = failed, (event.code, event.message)
            case _ if hasattr(event, "change"):
                self._changed(event, record)

    def task_submitted(self, event: TaskSubmitted, record: Record) -> None:
        """Checks that a task is that of the newest trial, which reuses no other one."""
        trial = self.suggested - 1
        belongs = number_of(event.part, TRIAL) == trial and event.task_id == trial_task_id(
            self.stream_id, trial
        )
        origin = self.origins.get(trial)
        if origin is None:
            self.findings.compare(record, "the checkpoint", event.checkpoint, None)
        elif event.checkpoint != origin.checkpoint:
            message = f"task {event.task_id} doesn't begin with the checkpoint of its trial"
            self.findings.illegal(record, message)
        if trial in self.reused_tasks or not belongs:
            self.findings.illegal(record, f"task {event.task_id} is not that of the newest trial, {trial}")
        elif self.newest is not None:
            agreement.check_task(self.spec, event, self.newest, record, self.findings)

    def task_continued(self, event: TaskContinued, record: Record) -> None:
        """Checks that a task goes on with the parameters of the newest trial."""
        if self.newest is not None:
            self.findings.compare(record, "the parameters", event.parameters, self.newest.parameters)

    def ignored(self, event: Message) -> str:
        """Returns that an event without effect is of a trial that comes later."""
        early = False
        match event:
            case TrialSuggested() | SuggestionDeferred():
                early = event.trial > self.suggested
            case TrialEnded():
                early = event.trial >= self.suggested
            case AssessmentFailed():
                early = event.failure > self.assessor_failures[1] + 1
            case SuggestionFailed():
                early = (event.trial, event.failure) > (self.suggested, self.failures + 1)
        return f"it comes after {self.suggested} trials, and {self.failures} failures" if early else ""

    def accepted_alone(self, command: Any) -> str:
        """Returns what a command that was accepted without an event should have changed."""
        match command:
            case UpdateSearch() if agreement.limits(self.spec, command) != agreement.limits(self.spec):
                return "its limits are others"
            case UpdateSearchSpace() if command.space != self.spec.space:
                return "its space is another one"
            case PauseSearch() | ResumeSearch() if isinstance(command, PauseSearch) is not self.paused:
                return f"it is {'' if self.paused else 'not '}paused"
            case StopSearch() if not self.stopping:
                return "it is not being stopped"
            case RequestTrials() | AddTrial():
                return "there is no such change"
        return ""

    def facts_of(self, event: Message) -> Iterable[tuple[str, object]]:
        """Returns the values of its trials, how many they are, and the status that it ends with."""
        if self.is_child and isinstance(event, TrialSuggested):
            yield f"the parameters of trial {event.trial}", event.parameters
        elif self.is_child and isinstance(event, TrialEnded) and event.value is not None:
            yield f"the value of trial {event.trial}", event.value
        elif isinstance(event, SearchEnded):
            yield "its end", event.status.value
            yield "its number of trials", event.trials

    def unfinished(self) -> str:
        """Returns that it has not ended, unless it has."""
        return "" if self.over else "the search has not ended"

    def _suggested(self, event: TrialSuggested, record: Record) -> None:
        self.findings.checked["INV-12"] += 1
        added_by_user = event.source == "customized"
        if not self.expects_trials or self.paused or (self.exhausted and not added_by_user):
            self.findings.illegal(record, "no further trial may begin")
        if self.deferred and (not added_by_user or (self.added and self.added[0].partial)):
            self.findings.illegal(record, "the tuner waits for more to learn from")
        policy = self.spec.tuner.on_failure
        if event.source == "fallback" and (policy.then != "random" or self.failures <= policy.retries):
            self.findings.illegal(record, f"drawn at random after {self.failures} failures of the tuner")
        self.failures = 0
        if added_by_user != bool(self.added) or (added_by_user and not agreement.holds(event, self.added[0])):
            self.findings.illegal(record, f"{len(self.added)} trials that users added wait, in their order")
        if event.trial != self.suggested:
            message = f"trial {event.trial} comes after {self.suggested} trials"
            self.findings.add("INV-12", record, message)
        self._check_origin(event, record)
        self._check_parameters(event, record)
        self.newest = event
        self.suggested += 1
        self.active.add(event.trial)
        if event.outside:
            self.outside.add(event.trial)
        del self.added[: int(added_by_user)]
        if self.suggested > self.spec.max_trials:
            message = f"{self.suggested} trials, the limit is {self.spec.max_trials}"
            self.findings.add("INV-12", record, message)
        self.findings.check_concurrency(len(self.active), self.slots, "trials", record)

    def _check_parameters(self, event: TrialSuggested, record: Record) -> None:
        """Checks that parameters are in the space of the search, but for those that a user put outside."""
        found = list(agreement.outside(self.spec.space, event.parameters))
        self.findings.compare(record, "outside of the space", found, event.outside)
        self.findings.compare(record, "the version of the space", event.space_version, self.space_version)
        if not agreement.has_budgets(self.spec):
            self.findings.compare(record, "the step limit", event.step_limit, None)
        self._check_seen(event, record)

    def _check_seen(self, event: Any, record: Record) -> None:
        """Checks that what the tuner was asked with begins with the cause, or before it if a trial waits."""
        cause = parse_cause(record.envelope.causation_id)
        if cause is not None and (event.seen > cause[1] or (event.seen < cause[1] and not self.added)):
            self.findings.differs(record, "seen", event.seen, cause[1])

    def _ended(self, event: SearchEnded, record: Record) -> None:
        self.over = True
        status = SearchStatus.DONE if not self.stopping else SearchStatus.STOPPED
        status = SearchStatus.ERROR if self.failed else status
        self.findings.compare(record, "the status", event.status.value, status.value)
        self.findings.compare(record, "the number of trials", event.trials, self.suggested)

    def _check_origin(self, event: TrialSuggested, record: Record) -> None:
        """Checks that a promoted trial continues a checkpoint which the log has, and has more steps."""
        self.step_limits[event.trial] = event.step_limit
        origin = event.from_checkpoint
        if origin is None:
            return
        self.origins[event.trial] = origin
        if origin.trial >= self.suggested or origin.trial in self.active:
            self.findings.illegal(record, f"trial {origin.trial}, which it continues, has not ended")
            return
        task = self.tasks.get(trial_task_id(self.stream_id, origin.trial))
        begun = self.origins.get(origin.trial)
        given = (
            set()
            if begun is None or begun.checkpoint is None
            else {agreement.of_checkpoint(begun.checkpoint)}
        )
        known = given | (set() if task is None else task.checkpoints)
        if origin.checkpoint is not None and agreement.of_checkpoint(origin.checkpoint) not in known:
            message = f"trial {origin.trial} has saved no checkpoint {origin.checkpoint.sha256}"
            self.findings.illegal(record, message)
        before = self.step_limits.get(origin.trial)
        if before is None or event.step_limit is None or event.step_limit <= before:
            message = f"its step limit {event.step_limit} is not above {before}, that of trial {origin.trial}"
            self.findings.illegal(record, message)

    def _trial_ended(self, event: TrialEnded, record: Record) -> None:
        if event.trial not in self.active:
            self.findings.add("INV-12", record, f"trial {event.trial} ends, and was not going on")
        self.active.discard(event.trial)
        self.slots = max(self.spec.concurrency, self.slots - 1)
        self._result_added(record)
        counts = event.status is TrialStatus.SUCCEEDED and event.trial not in self.outside
        value = event.value if counts else None
        if value is not None and (self.best is None or self._is_as_good(value, self.best)):
            self.best = value
        own = trial_task_id(self.stream_id, event.trial)
        task = self.tasks.get(self.reused_tasks.get(event.trial) or own)
        over = task is not None and (task.has_ended or task.awaits_parameters)
        if task is None or number_of(task.part, TRIAL) != event.trial or not over:
            self.findings.illegal(record, f"trial {event.trial} ends before its task")
            return
        agreement.check_trial_end(self.spec, task, event, record, self.findings)
        task.reports.clear()
        if not task.has_ended:
            task.release()

    def _reuse_task(self, event: TrialSuggested, record: Record) -> None:
        """Checks that a task may be reused for another trial."""
        task = self.tasks.get(event.within)
        self.reused_tasks[event.trial] = event.within
        if task is None or not task.may_go_on:
            self.findings.illegal(record, f"task {event.within} doesn't wait for another trial")
        else:
            task.assign_part(Part(kind=TRIAL, number=event.trial))

    def _changed(self, event: Any, record: Record) -> None:
        if self.stopping:
            self.findings.illegal(record, "the search is stopping")
        match event:
            case TrialsRequested():
                self.slots += event.count
            case TrialsImported():
                self._result_added(record)
            case TrialAdded():
                partial = not agreement.has_all(self.spec.space, event.parameters)
                self.findings.compare(record, "partial", event.partial, partial)
                self.added.append(event)
            case SearchSpaceUpdated():
                if event.space_version != self.space_version + 1:
                    self.findings.illegal(record, f"the space is in version {self.space_version}")
                self.space_version, self.exhausted = event.space_version, False
                self.spec = self.spec.model_copy(update={"space": event.space})
                self._reset_tuner()
            case SearchUpdated():
                self._updated(event, record)
            case SearchPaused() if not self.paused:
                self.paused, self.paused_at_ms = True, record.append_time_ms
            case SearchResumed():
                if self.paused:
                    self.paused_ms += record.append_time_ms - self.paused_at_ms
                self.paused = False
                self._reset_tuner()

    def _tuner_answered(self, event: SuggestionFailed | SuggestionDeferred, record: Record) -> None:
        self._check_seen(event, record)
        if not self.awaits_tuner or event.trial != self.suggested:
            self.findings.illegal(record, f"no tuner was asked for trial {event.trial}")
        if isinstance(event, SuggestionFailed):
            if event.failure != self.failures + 1:
                self.findings.illegal(record, f"it comes after {self.failures} failures")
            self.failures, self.last_failure = event.failure, (event.code, event.message)
            return
        if not self.active and self.last_result_at <= event.seen:
            self.findings.illegal(record, "nothing goes on that the tuner could wait for")
        self.deferred, self.failures = self.last_result_at <= event.seen, 0

    def _result_added(self, record: Record) -> None:
        self.last_result_at = record.offset
        if self.deferred:
            self._reset_tuner()

    def _reset_tuner(self) -> None:
        self.deferred, self.failures = False, 0

    def _updated(self, event: SearchUpdated, record: Record) -> None:
        if isinstance(self.command, UpdateSearch):
            given = {name: getattr(event, name) for name in agreement.LIMITS}
            self.findings.compare(record, "the limits", given, agreement.limits(self.spec, self.command))
        growth = event.concurrency - self.spec.concurrency
        least = event.concurrency if growth >= 0 else len(self.active)
        self.slots = max(least, self.slots + min(growth, 0))
        self.spec = self.spec.model_copy(update={name: getattr(event, name) for name in agreement.LIMITS})
        if self.due_ms is None or record.append_time_ms < self.due_ms:
            self.time_limit_reached = False
        self._reset_tuner()

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
        """Returns whether the next trial is one that the tuner suggests, or draws the rest of."""
        waits = self.expects_trials and not self.paused and not self.deferred
        return waits and (self.added[0].partial if self.added else not self.exhausted)

    @property
    def due_ms(self) -> int | None:
        """When its time limit ends, ms since 1970; a pause moves it."""
        limit_s = self.spec.max_duration_s
        return None if limit_s is None else self.started_ms + self.paused_ms + int(limit_s * 1000)

    @property
    def _goal_reached(self) -> bool:
        if self.best is None or self.spec.goal is None:
            return False
        return self._is_as_good(self.best, self.spec.goal)

    def _is_as_good(self, value: float, other: float) -> bool:
        """Returns whether a value is at least as good as another."""
        return value >= other if self.spec.direction == "maximize" else value <= other
