"""INV-12, and INV-10 of searches: they stay within their limits, and change in order."""

from dataclasses import dataclass, field
from typing import Any

from trackside.contracts.advice import AssessmentFailed, SuggestionDeferred, SuggestionFailed
from trackside.contracts.ids import trial_task_id
from trackside.contracts.message import Record
from trackside.contracts.searches import (
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
from trackside.verify.findings import Findings
from trackside.verify.task_history import At, TaskBook

_LIMITS = ("concurrency", "max_trials", "max_duration_s", "max_trial_duration_s", "goal")
Change = (
    TrialsRequested
    | SearchSpaceUpdated
    | TrialsImported
    | TrialAdded
    | SearchUpdated
    | SearchPaused
    | SearchResumed
)
OF_SEARCHES = (
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
    | Change
)


@dataclass(slots=True)
class SearchBook:
    """What was seen of a search: how many trials, which of them go on, and what commands have changed.

    `slots` is how many trials may go on at once: the concurrency, and what was requested beyond it or goes
    on from before the concurrency fell, until as many trials have ended. `failures` are the tuner's for the
    next trial; while `deferred` it waits for more to learn from than it had at offset `learnt_at`.
    `assessor_failures` is how much the assessor was told when it failed last, and how often it had in a row.
    `within` names the tasks that went on with a trial.
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
    time_is_up: bool = False
    best: float | None = None
    failures: int = 0
    deferred: bool = False
    learnt_at: int = -1
    assessor_failures: tuple[int, int] = (0, 0)
    within: dict[int, str] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Says whether one of its limits lets no trial begin any more."""
        return self.suggested >= self.spec.max_trials or self.time_is_up or self._goal_is_reached

    @property
    def goes_on(self) -> bool:
        """Says whether trials are still to come."""
        if self.stopping or self.paused:
            return self.paused and not self.stopping
        return not self.is_full and (not self.exhausted or bool(self.added))

    @property
    def waits_for_the_tuner(self) -> bool:
        """Says whether it is for the tuner to say what is tried next."""
        waits = self.goes_on and not self.paused and not self.exhausted
        return waits and not self.added and not self.deferred

    @property
    def due_ms(self) -> int | None:
        """When its longest duration ends, which a pause moves."""
        limit_s = self.spec.max_duration_s
        return None if limit_s is None else self.started_ms + self.paused_ms + int(limit_s * 1000)

    @property
    def _goal_is_reached(self) -> bool:
        if self.best is None or self.spec.goal is None:
            return False
        return self.is_as_good(self.best, self.spec.goal)

    def is_as_good(self, value: float, other: float) -> bool:
        """Says whether a value is at least as good as another."""
        return value >= other if self.spec.direction == "maximize" else value <= other


def book_of(search_id: str, event: SearchStarted, record: Record) -> SearchBook:
    """Opens the book of a search."""
    return SearchBook(search_id, event.search, record.append_time_ms, event.search.concurrency)


@dataclass(slots=True)
class Searches:
    """Judges events of searches."""

    findings: Findings

    def take(self, book: SearchBook, tasks: dict[str, TaskBook], event: OF_SEARCHES, record: Record) -> None:
        """Judges what happens to a search."""
        match event:
            case TrialSuggested():
                self._suggested(book, event, record)
                if event.within:
                    self._goes_on(book, tasks.get(event.within), event, record)
            case TrialEnded():
                self._trial_ended(book, tasks, event, record)
            case SearchExhausted():
                if book.exhausted or not book.goes_on or book.paused or event.trials != book.suggested:
                    self.findings.illegal(record, f"{book.suggested} trials were suggested")
                book.exhausted = True
            case SearchTimeLimitReached():
                if book.paused or event.due_ms != book.due_ms or record.append_time_ms < event.due_ms:
                    self.findings.illegal(record, f"its time is up at {book.due_ms}")
                book.time_is_up = True
            case SearchStopRequested() | SearchFailed():
                if book.stopping:
                    self.findings.illegal(record, "the search is stopping already")
                book.stopping = True
            case SearchEnded():
                if book.active or book.goes_on:
                    said = ", ".join(str(trial) for trial in sorted(book.active)) or "none"
                    message = f"trials that go on: {said}; more may come: {book.goes_on}"
                    self.findings.illegal(record, message)
            case SuggestionFailed() | SuggestionDeferred():
                self._advised(book, event, record)
            case AssessmentFailed():
                failed = (event.rows, event.failure)
                follows = failed > book.assessor_failures and event.failure in (
                    1,
                    book.assessor_failures[1] + 1,
                )
                if book.spec.assessor is None or not follows:
                    self.findings.illegal(record, "it follows no failure of an assessor")
                book.assessor_failures = failed
            case _:
                self._changed(book, event, record)

    def _suggested(self, book: SearchBook, event: TrialSuggested, record: Record) -> None:
        self.findings.checked["INV-12"] += 1
        by_user = event.source == "customized"
        if not book.goes_on or book.paused or (book.exhausted and not by_user):
            self.findings.illegal(record, "no more trials were to come")
        if book.deferred and not by_user:
            self.findings.illegal(record, "the tuner waits for more to learn from")
        policy = book.spec.tuner.on_failure
        if event.source == "fallback" and (policy.then != "random" or book.failures <= policy.retries):
            self.findings.illegal(record, f"drawn by chance after {book.failures} failures of the tuner")
        book.failures = 0
        if by_user != bool(book.added) or (by_user and event.parameters != book.added[0]):
            self.findings.illegal(record, f"{len(book.added)} trials that users added wait, in their order")
        if event.trial != book.suggested:
            message = f"trial {event.trial} comes after {book.suggested} trials"
            self.findings.add("INV-12", record, message)
        book.suggested += 1
        book.active.add(event.trial)
        del book.added[: int(by_user)]
        if book.suggested > book.spec.max_trials:
            message = f"{book.suggested} trials, the limit is {book.spec.max_trials}"
            self.findings.add("INV-12", record, message)
        self.findings.at_once(len(book.active), book.slots, "trials", record)

    def _trial_ended(
        self, book: SearchBook, tasks: dict[str, TaskBook], event: TrialEnded, record: Record
    ) -> None:
        if event.trial not in book.active:
            self.findings.add("INV-12", record, f"trial {event.trial} ends, and was not going on")
        book.active.discard(event.trial)
        book.slots = max(book.spec.concurrency, book.slots - 1)
        self._learnt(book, record)
        value = event.value if event.status is TrialStatus.SUCCEEDED else None
        if value is not None and (book.best is None or book.is_as_good(value, book.best)):
            book.best = value
        task = tasks.get(book.within.get(event.trial) or trial_task_id(book.search_id, event.trial))
        if task is None or task.trial != event.trial or not (task.at is At.ENDED or task.asks):
            self.findings.illegal(record, f"trial {event.trial} ends before its task")
        elif task.at is not At.ENDED:
            task.rest()

    def _goes_on(
        self, book: SearchBook, task: TaskBook | None, event: TrialSuggested, record: Record
    ) -> None:
        """Judges whether a task may go on with another trial."""
        book.within[event.trial] = event.within
        if task is None or not (task.idle and task.asks) or task.stop or task.asked:
            self.findings.illegal(record, f"task {event.within} doesn't wait for another trial")
        else:
            task.go_on(event.trial)

    def _changed(self, book: SearchBook, event: Change, record: Record) -> None:
        if book.stopping or event.change != book.changes + 1:
            self.findings.illegal(record, f"change {event.change} comes after {book.changes} changes")
        book.changes = event.change
        match event:
            case TrialsRequested():
                book.slots += event.count
            case TrialsImported():
                self._learnt(book, record)
            case TrialAdded():
                book.added.append(event.parameters)
            case SearchSpaceUpdated():
                if event.space_version != book.space_version + 1:
                    self.findings.illegal(record, f"the space is in version {book.space_version}")
                book.space_version, book.exhausted = event.space_version, False
                self._asked_anew(book)
            case SearchUpdated():
                self._updated(book, event, record)
            case SearchPaused() if not book.paused:
                book.paused, book.paused_at_ms = True, record.append_time_ms
            case SearchResumed():
                if book.paused:
                    book.paused_ms += record.append_time_ms - book.paused_at_ms
                book.paused = False
                self._asked_anew(book)

    def _advised(
        self, book: SearchBook, event: SuggestionFailed | SuggestionDeferred, record: Record
    ) -> None:
        if not book.waits_for_the_tuner or event.trial != book.suggested:
            self.findings.illegal(record, f"no tuner was asked for trial {event.trial}")
        if isinstance(event, SuggestionFailed):
            if event.failure != book.failures + 1:
                self.findings.illegal(record, f"it comes after {book.failures} failures")
            book.failures = event.failure
            return
        if not book.active and book.learnt_at <= event.seen:
            self.findings.illegal(record, "nothing goes on that the tuner could wait for")
        book.deferred, book.failures = book.learnt_at <= event.seen, 0

    def _learnt(self, book: SearchBook, record: Record) -> None:
        book.learnt_at = record.offset
        if book.deferred:
            self._asked_anew(book)

    def _asked_anew(self, book: SearchBook) -> None:
        book.deferred, book.failures = False, 0

    def _updated(self, book: SearchBook, event: SearchUpdated, record: Record) -> None:
        more = event.concurrency - book.spec.concurrency
        least = event.concurrency if more >= 0 else len(book.active)
        book.slots = max(least, book.slots + min(more, 0))
        book.spec = book.spec.model_copy(update={name: getattr(event, name) for name in _LIMITS})
        if book.due_ms is None or record.append_time_ms < book.due_ms:
            book.time_is_up = False
        self._asked_anew(book)
