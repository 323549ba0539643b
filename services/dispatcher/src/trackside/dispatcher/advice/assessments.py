"""Asks assessors outside of the event loop which trials to stop; an answer is a proposal only."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog

from trackside.aggregates.search.advice import advice
from trackside.aggregates.search.messages import TRIAL
from trackside.aggregates.search.space.builtin_assessors import ASSESSORS
from trackside.aggregates.search.state import Search, search_of, trial_trace
from trackside.aggregates.search.trials import suggestions
from trackside.aggregates.search.trials.verdicts import (
    assessed_end,
    awaiting_verdicts,
    last_report_of,
    last_row_of,
    still_counts,
)
from trackside.contracts.envelope.parts import number_of
from trackside.dispatcher.advice.advisor_process import (
    AdvisorClosed,
    AdvisorError,
    AdvisorProcess,
    SearchSetup,
)
from trackside.dispatcher.advice.assessor_client import AssessmentResult, AssessorClient
from trackside.dispatcher.advice.remote_assessors import RemoteAssessors
from trackside.domain.proposal import Proposal
from trackside.domain.streams.stream import Stream
from trackside.eventlog.background import Background

log = structlog.get_logger("trackside.dispatcher")


@dataclass(slots=True)
class _AssessedSearch:
    """How many rows of a search's past were sent and how many assessed, and what was proposed already.

    `rejected` has the trials to stop, each with the row of the report that showed it.
    """

    setup: SearchSetup
    rows: int = 0
    assessed: int = 0
    rejected: dict[int, int] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    asking: bool = False
    has_answered: bool = False
    proposed: set[tuple[int, int]] = field(default_factory=set)


class AssessmentLoop:
    """Gets every row of a search's past assessed that was not yet assessed, also after a restart.

    A trial ends only when all of its reports are assessed: one that is to be stopped at a report has ended
    there, whether the stop or the task's own end came first. So equal reports lead to equal ends.

    While one request is open further reports gather and go together, so assessments keep up with any rate.
    """

    def __init__(
        self,
        process: AdvisorProcess,
        background: Background,
        propose: Callable[[str, Proposal], None],
        plugin_process: AdvisorProcess | None = None,
        remote: RemoteAssessors | None = None,
    ) -> None:
        self._builtin = AssessorClient(process)
        self._plugins = self._builtin if plugin_process is None else AssessorClient(plugin_process)
        self._remote = remote
        self._background = background
        self._propose = propose
        self._searches: dict[str, _AssessedSearch] = {}

    def update(self, stream: Stream) -> None:
        """Gets the new rows of a search's past assessed, unless a request about it is open."""
        search = search_of(stream)
        if search is None or search.spec.assessor is None or advice.assessor_is_given_up(search):
            return
        assessed = self._searches.get(search.search_id)
        if assessed is None:
            assessed = self._searches[search.search_id] = _AssessedSearch(_setup(search))
        if len(search.assessor_feed) > assessed.rows and not assessed.asking:
            assessed.asking = True
            self._background.spawn(self._run(stream, search, assessed))
        self._propose_ends(stream, search, assessed)

    def reconsider(self, search_id: str) -> None:
        """Gets a search assessed again: a proposal for it may have been lost."""
        assessed = self._searches.get(search_id)
        if assessed is not None:
            assessed.proposed.clear()
            assessed.ended.clear()
            assessed.rows = 0

    async def forget(self, search_id: str) -> None:
        """Drops a search that is over."""
        if self._searches.pop(search_id, None) is not None:
            if self._remote is not None:
                self._remote.forget(search_id)
            await self._builtin.forget(search_id)
            await self._plugins.forget(search_id)

    async def _run(self, stream: Stream, search: Search, assessed: _AssessedSearch) -> None:
        while assessed.rows < len(search.assessor_feed):
            rows, seen = len(search.assessor_feed), stream.last_offset
            assessed.rows = rows
            try:
                result = await self._assess(stream, search, assessed)
            except AdvisorClosed:
                return
            except AdvisorError as error:
                log.warning("assessment failed", stream=search.search_id, rows=rows, reason=str(error))
                assessed.rows = 0  # asked again when the failure is in the log, if retries are left
                self._propose_failure(stream, search, assessed, rows, error, seen)
                break
            assessed.has_answered = True
            self._propose_rule_failures(stream, search, assessed, result.failures, seen)
            for trial, row in _verdicts(search, result, rows):
                is_new = (trial, row) not in assessed.proposed
                if is_new and _may_stop(stream, trial) and still_counts(search, row):
                    assessed.proposed.add((trial, row))
                    stop = suggestions.early_stop(search, trial, seen)
                    follows = stream.tasks[search.task_of(trial)].reported_at
                    trace = trial_trace(stream, trial)
                    self._propose(search.search_id, Proposal("stop trial", stop, follows, trace))
            _note_verdicts(search, assessed, result, rows)
            self._propose_ends(stream, search, assessed)
        assessed.asking = False

    def _propose_ends(self, stream: Stream, search: Search, assessed: _AssessedSearch) -> None:
        """Proposes the ends of the trials whose reports are all assessed."""
        for number, task in awaiting_verdicts(stream):
            if number in assessed.ended or last_row_of(search, number) >= assessed.assessed:
                continue
            row = assessed.rejected.get(number)
            if row is not None and not still_counts(search, row):
                row = None
            assessed.ended.add(number)
            ended = assessed_end(search, number, task, row)
            trace = trial_trace(stream, number)
            self._propose(search.search_id, Proposal("end trial", [ended], task.changed_at, trace))

    def _assess(
        self, stream: Stream, search: Search, assessed: _AssessedSearch
    ) -> Coroutine[Any, Any, AssessmentResult]:
        assessor = search.spec.assessor
        assert assessor is not None
        if assessor.remote and self._remote is not None:
            return self._remote.assess(search, search.assessor_feed)
        client = self._builtin if assessor.name in ASSESSORS else self._plugins
        return client.assess(search.search_id, assessed.setup, search.assessor_feed)

    def _propose_failure(
        self,
        stream: Stream,
        search: Search,
        assessed: _AssessedSearch,
        rows: int,
        error: AdvisorError,
        seen: int,
    ) -> None:
        """Proposes the failure of an assessor that gave no answer."""
        before = 0 if assessed.has_answered else search.assessor_failures.in_a_row
        assessed.has_answered = False
        failure = (rows, before + 1, None)
        events = suggestions.assessment_failed(
            failure, f"assessor_{error.code}", str(error), error.traceback, seen
        )
        self._propose(search.search_id, Proposal("assess trials", events, seen, stream.traceparent))

    def _propose_rule_failures(
        self,
        stream: Stream,
        search: Search,
        assessed: _AssessedSearch,
        failures: list[dict[str, Any]],
        seen: int,
    ) -> None:
        """Proposes the failures that are not in the log yet: an assessor repeats them after a restart."""
        for each in failures:
            rows = each["rows"]
            if rows <= search.assessor_failures.rows or (-1, rows) in assessed.proposed:
                continue
            assessed.proposed.add((-1, rows))
            code = "assessor_nonsense" if each["type"] == "NonsenseError" else "assessor_failed"
            failure, message = (rows, each["failure"], each["trial"]), f"{each['type']}: {each['message']}"
            events = suggestions.assessment_failed(failure, code, message, each["traceback"], seen)
            self._propose(search.search_id, Proposal("assess trials", events, seen, stream.traceparent))


def _setup(search: Search) -> SearchSetup:
    assert search.spec.assessor is not None
    return {
        "assessor": search.spec.assessor.model_dump(mode="json"),
        "direction": search.spec.direction,
        "seed": search.seed,
    }


def _verdicts(search: Search, result: AssessmentResult, rows: int) -> list[tuple[int, int]]:
    """Returns the trials to stop, each with the index of the row that showed it.

    A remote assessor names trials only: then it is the last report that it was asked about.
    """
    assessor = search.spec.assessor
    if assessor is None or not assessor.remote:
        return result.trials_to_stop
    return [(trial, last_report_of(search, trial, rows)) for trial, _ in result.trials_to_stop]


def _note_verdicts(search: Search, assessed: _AssessedSearch, result: AssessmentResult, rows: int) -> None:
    """Keeps the verdicts about the first `rows` rows; a remote assessor does not repeat earlier ones."""
    assessor = search.spec.assessor
    verdicts = dict(_verdicts(search, result, rows))
    if assessor is not None and assessor.remote:
        for trial, row in assessed.rejected.items():
            if trial not in verdicts or still_counts(search, row):
                verdicts[trial] = row
    assessed.rejected = verdicts
    assessed.assessed = rows


def _may_stop(stream: Stream, trial: int) -> bool:
    """Reports whether a trial still runs and no stop of it was requested."""
    search = search_of(stream)
    task = None if search is None else stream.tasks.get(search.task_of(trial))
    return (
        task is not None
        and number_of(task.part, TRIAL) == trial
        and task.end is None
        and not task.asks
        and not task.stop_reason
    )
