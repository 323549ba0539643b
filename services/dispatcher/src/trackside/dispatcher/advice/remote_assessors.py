"""Assessors that are processes elsewhere: what they are told of a search, and what they say of its trials.

A request is a function of the first `rows` rows of the search's past: a dispatcher that begins anew asks the
same again. A verdict is a proposal like any other: it counts when the log has the TaskStopRequested.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from trackside.contracts.advice import AnswerAssessment, AssessmentRequested
from trackside.dispatcher.advice.advisor_process import AdviceFailed, InvalidAdvice
from trackside.dispatcher.advice.assessor_client import AssessmentResult
from trackside.dispatcher.advice.remote_exchange import REQUEST_BYTES_MAX, RemoteExchange
from trackside.domain.past import Row
from trackside.domain.search import Search

POINTS_MAX = 1_000
"""So many reports of a trial a request tells of, the newest."""

CurveJson = dict[str, Any]


@dataclass(slots=True)
class TrialCurves:
    """The first `taken` rows of a search's past by trial: those that run, and those that are over.

    A trial stands behind those that reported, or ended, before it. `begun` counts how often it began anew.
    """

    taken: int = 0
    running: dict[int, CurveJson] = field(default_factory=dict)
    ended: list[CurveJson] = field(default_factory=list)
    begun: dict[int, int] = field(default_factory=dict)

    def take(self, rows: Iterable[Row]) -> None:
        """Takes in the next rows."""
        for trial, step, value in rows:
            self.taken += 1
            if step is None:
                self.running.pop(trial, None)
                self.begun[trial] = self.begun.get(trial, 0) + 1
                continue
            course = self.running.pop(trial, None) or _course(trial)
            if isinstance(step, str):
                self.ended.append({**_kept(course), "status": step, "value": value})
                continue
            course["steps"].append(step)
            course["values"].append(value)
            self.running[trial] = course


def _course(trial: int) -> CurveJson:
    return {"number": trial, "steps": [], "values": [], "omitted": 0}


def _kept(course: CurveJson) -> CurveJson:
    """Gives a trial with its newest reports, as a request tells it."""
    left_out = max(0, len(course["steps"]) - POINTS_MAX)
    newest = {name: course[name][left_out:] for name in ("steps", "values")}
    return {**course, **newest, "omitted": left_out}


class RemoteAssessors:
    """Assessments by processes outside of Trackside. What is remembered can be made again from the past."""

    def __init__(self, exchange: RemoteExchange[AnswerAssessment], limit_s: float) -> None:
        self._exchange = exchange
        self._limit_s = limit_s
        self._searches: dict[str, TrialCurves] = {}

    async def assess(self, search: Search, past: Sequence[Row]) -> AssessmentResult:
        """Asks which running trials are to be stopped; nobody is asked while none has reported.

        Raises AdvisorTimeout, and AdviceFailed for an answer that says so, or that makes no sense.
        """
        courses = self._courses(search.search_id, past)
        if not courses.running:
            return AssessmentResult([], [])
        begun = {trial: courses.begun.get(trial, 0) for trial in courses.running}
        request = request_of(search, courses, self._limit_s)
        answer = await self._exchange.ask(request, f"an assessor {request.assessor!r}")
        who = f"assessor {request.assessor}, asked at row {request.rows},"
        if answer.says is not None or answer.hopeless is None:
            raise AdviceFailed(f"{who} failed: {answer.message or 'it gives no reason'}")
        for trial in answer.hopeless:
            if trial not in begun:
                raise InvalidAdvice(f"{who} called trial {trial} hopeless, which it was not asked about")
        return AssessmentResult([(trial, begun[trial]) for trial in sorted(set(answer.hopeless))], [])

    def forget(self, search_id: str) -> None:
        """Drops a search that is over."""
        self._searches.pop(search_id, None)

    def _courses(self, search_id: str, past: Sequence[Row]) -> TrialCurves:
        courses = self._searches.setdefault(search_id, TrialCurves())
        courses.take(past[courses.taken :])
        return courses


def request_of(search: Search, courses: TrialCurves, limit_s: float) -> AssessmentRequested:
    """Gives the question upon a search's past, with as many trials as a record has room for."""
    assessor = search.spec.assessor
    assert assessor is not None
    running = [_kept(course) for course in reversed(courses.running.values())]
    ended = courses.ended[::-1]
    left, told = REQUEST_BYTES_MAX, 0
    for course in chain(running, ended):
        left -= len(json.dumps(course))
        if left < 0:
            break
        told += 1
    return AssessmentRequested(
        request_id=f"{search.search_id}/{courses.taken}/{search.assessor_failures.count + 1}",
        search_id=search.search_id,
        assessor=assessor.name,
        options=assessor.model_dump(mode="json")["options"],
        direction=search.spec.direction,
        search_seed=search.seed,
        rows=courses.taken,
        time_limit_s=limit_s if assessor.time_limit_s is None else assessor.time_limit_s,
        running=running[:told],
        ended=ended[: max(0, told - len(running))],
        omitted=len(running) + len(ended) - told,
    )
