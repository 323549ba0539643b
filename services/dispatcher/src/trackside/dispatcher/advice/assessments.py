"""Asks assessors beside the loop whom to stop; what they say comes back as a proposal that may lose."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import structlog

from trackside.dispatcher.advice.advisor_process import (
    AdvisorClosed,
    AdvisorError,
    AdvisorProcess,
    SearchSetup,
)
from trackside.dispatcher.advice.assessor_client import AssessmentResult, AssessorClient
from trackside.dispatcher.advice.remote_assessors import RemoteAssessors
from trackside.dispatcher.assessors.builtin_assessors import ASSESSORS
from trackside.dispatcher.decisions import react as decide
from trackside.domain.proposal import Proposal
from trackside.domain.search import Search
from trackside.domain.stream import Stream
from trackside.eventlog.background import Background

log = structlog.get_logger("trackside.dispatcher")


@dataclass(slots=True)
class _Judged:
    """How many rows of a search's past have been judged, and which verdicts were proposed already."""

    setup: SearchSetup
    rows: int = 0
    asking: bool = False
    has_answered: bool = False
    proposed: set[tuple[int, int]] = field(default_factory=set)


class AssessmentLoop:
    """Level-triggered: whatever a search's past has that was not judged yet is sent, also after a restart.

    While one question is open the next reports gather, and go together: verdicts keep up with any rate.
    """

    def __init__(
        self,
        lane: AdvisorProcess,
        background: Background,
        propose: Callable[[str, Proposal], None],
        own_lane: AdvisorProcess | None = None,
        remote: RemoteAssessors | None = None,
    ) -> None:
        self._assessor = AssessorClient(lane)
        self._own = self._assessor if own_lane is None else AssessorClient(own_lane)
        self._remote = remote
        self._background = background
        self._propose = propose
        self._searches: dict[str, _Judged] = {}

    def look_at(self, stream: Stream) -> None:
        """Has what is new in a search's past judged, unless a question about it is open."""
        search = stream.search
        if search is None or search.spec.assessor is None or decide.assessor_is_given_up(search):
            return
        known = self._searches.get(search.search_id)
        if known is None:
            known = self._searches[search.search_id] = _Judged(_setup(search))
        if len(stream.past) > known.rows and not known.asking:
            known.asking = True
            self._background.spawn(self._judge(stream, search, known))

    def reconsider(self, search_id: str) -> None:
        """Has a search judged again: what was proposed may have been lost on its way."""
        known = self._searches.get(search_id)
        if known is not None:
            known.proposed.clear()
            known.rows = 0

    async def forget(self, search_id: str) -> None:
        """Drops a search that is over."""
        if self._searches.pop(search_id, None) is not None:
            if self._remote is not None:
                self._remote.forget(search_id)
            await self._assessor.forget(search_id)
            await self._own.forget(search_id)

    async def _judge(self, stream: Stream, search: Search, known: _Judged) -> None:
        while known.rows < len(stream.past):
            rows, seen = len(stream.past), stream.last_offset
            known.rows = rows
            try:
                result = await self._asked(stream, search, known)
            except AdvisorClosed:
                return
            except AdvisorError as error:
                log.warning("no verdicts", stream=search.search_id, rows=rows, reason=str(error))
                known.rows = 0  # asked again when the failure is in the log, unless it was one too many
                self._tell_silence(stream, search, known, rows, error, seen)
                break
            known.has_answered = True
            self._tell_failures(stream, search, known, result.failures, seen)
            for trial, place in result.trials_to_stop:
                is_new = (trial, place) not in known.proposed
                if is_new and _may_stop(stream, trial) and not _began_anew(stream, trial, rows):
                    known.proposed.add((trial, place))
                    stop = decide.early_stop(search, trial, seen)
                    follows = stream.tasks[search.task_of(trial)].reported_at
                    self._propose(search.search_id, Proposal("stop trial", stop, follows, stream.traceparent))
        known.asking = False

    def _asked(self, stream: Stream, search: Search, known: _Judged) -> Coroutine[Any, Any, AssessmentResult]:
        assessor = search.spec.assessor
        assert assessor is not None
        if assessor.remote and self._remote is not None:
            return self._remote.assess(search, stream.past)
        lane = self._assessor if assessor.name in ASSESSORS else self._own
        return lane.assess(search.search_id, known.setup, stream.past)

    def _tell_silence(
        self, stream: Stream, search: Search, known: _Judged, rows: int, error: AdvisorError, seen: int
    ) -> None:
        """Proposes the failure of an assessor that could not be asked to the end."""
        before = 0 if known.has_answered else search.assessor_failures.in_a_row
        known.has_answered = False
        failure = (rows, before + 1, None)
        told = decide.assessment_failed(failure, f"assessor_{error.code}", str(error), error.traceback, seen)
        self._propose(search.search_id, Proposal("assess trials", told, seen, stream.traceparent))

    def _tell_failures(
        self, stream: Stream, search: Search, known: _Judged, failed: list[dict[str, Any]], seen: int
    ) -> None:
        """Proposes those failures that the log hasn't yet: told of a past again, an assessor repeats them."""
        for each in failed:
            rows = each["rows"]
            if rows <= search.assessor_failures.rows or (-1, rows) in known.proposed:
                continue
            known.proposed.add((-1, rows))
            code = "assessor_nonsense" if each["type"] == "NonsenseError" else "assessor_failed"
            failure, message = (rows, each["failure"], each["trial"]), f"{each['type']}: {each['message']}"
            told = decide.assessment_failed(failure, code, message, each["traceback"], seen)
            self._propose(search.search_id, Proposal("assess trials", told, seen, stream.traceparent))


def _setup(search: Search) -> SearchSetup:
    assert search.spec.assessor is not None
    return {
        "assessor": search.spec.assessor.model_dump(mode="json"),
        "direction": search.spec.direction,
        "seed": search.seed,
    }


def _began_anew(stream: Stream, trial: int, rows: int) -> bool:
    """Says whether a trial has another attempt than the one that was judged, by what came behind `rows`."""
    return any(row[0] == trial and row[1] is None for row in stream.past[rows:])


def _may_stop(stream: Stream, trial: int) -> bool:
    """Says whether a trial runs still and nobody has asked for its end."""
    search = stream.search
    task = None if search is None else stream.tasks.get(search.task_of(trial))
    return task is not None and task.trial == trial and task.end is None and not task.stop_reason
