"""Assessors that are separate processes: what a request has of a search, and what an answer means.

A request is a function of the first `rows` rows of the search's past, so a dispatcher that restarts sends the
same one again. An answer is a proposal: a trial is stopped when the log has its TaskStopRequested.
"""

import json
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from trackside.aggregates.search.advice.advice_messages import AnswerAssessment, AssessmentRequested
from trackside.aggregates.search.state import RESUMED, FeedRow, Search
from trackside.dispatcher.advice.advisor_process import AdviceFailed, InvalidAdvice
from trackside.dispatcher.advice.assessor_client import AssessmentResult
from trackside.dispatcher.advice.remote_exchange import REQUEST_BYTES_MAX, RemoteExchange

POINTS_MAX = 1_000
"""A request has at most so many reports of a trial, the newest."""

CurveJson = dict[str, Any]


@dataclass(slots=True)
class TrialCurves:
    """The first `rows` rows of a search's past by trial: those that run, and those that are over.

    Trials are in the order of their last report or end. `restarts` counts the new attempts of each, and
    `before` has the reports of the attempt before, which count again below the step that one resumes at.
    """

    rows: int = 0
    running: dict[int, CurveJson] = field(default_factory=dict)
    ended: list[CurveJson] = field(default_factory=list)
    restarts: dict[int, int] = field(default_factory=dict)
    before: dict[int, CurveJson] = field(default_factory=dict)

    def extend(self, rows: Iterable[FeedRow]) -> None:
        """Adds the next rows."""
        for trial, step, value in rows:
            self.rows += 1
            if step is None:
                if trial in self.running:
                    self.before[trial] = self.running.pop(trial)
                self.restarts[trial] = self.restarts.get(trial, 0) + 1
                continue
            before = self.before.pop(trial, None)
            if step == RESUMED:
                self.running[trial] = _below(before or _new_curve(trial), value)
                continue
            curve = self.running.pop(trial, None) or _new_curve(trial)
            if isinstance(step, str):
                self.ended.append({**_shortened(curve), "status": step, "value": value})
                continue
            curve["steps"].append(step)
            curve["values"].append(value)
            self.running[trial] = curve


def _new_curve(trial: int) -> CurveJson:
    return {"number": trial, "steps": [], "values": [], "omitted": 0}


def _below(curve: CurveJson, step: float | str | None) -> CurveJson:
    """Returns a trial with the reports below a step."""
    count = bisect_left(curve["steps"], step)
    return {**curve, "steps": curve["steps"][:count], "values": curve["values"][:count]}


def _shortened(curve: CurveJson) -> CurveJson:
    """Returns a trial with its newest reports, as a request has it."""
    omitted = max(0, len(curve["steps"]) - POINTS_MAX)
    newest = {name: curve[name][omitted:] for name in ("steps", "values")}
    return {**curve, **newest, "omitted": omitted}


class RemoteAssessors:
    """Assessments by separate processes. All state can be computed again from the past."""

    def __init__(self, exchange: RemoteExchange[AnswerAssessment], limit_s: float) -> None:
        self._exchange = exchange
        self._limit_s = limit_s
        self._searches: dict[str, TrialCurves] = {}

    async def assess(self, search: Search, past: Sequence[FeedRow]) -> AssessmentResult:
        """Asks which running trials are to be stopped; sends no request while none has reported.

        Raises AdvisorTimeout, AdviceFailed if the assessor answers that it failed, and InvalidAdvice for a
        trial that the request does not have.
        """
        curves = self._curves(search.search_id, past)
        if not curves.running:
            return AssessmentResult([], [])
        restarts = {trial: curves.restarts.get(trial, 0) for trial in curves.running}
        request = request_of(search, curves, self._limit_s)
        answer = await self._exchange.ask(request, f"an assessor {request.assessor!r}")
        who = f"assessor {request.assessor}, asked at row {request.rows},"
        if answer.says is not None or answer.hopeless is None:
            raise AdviceFailed(f"{who} failed: {answer.message or 'it gives no reason'}")
        for trial in answer.hopeless:
            if trial not in restarts:
                raise InvalidAdvice(f"{who} would stop trial {trial}, which it was not asked about")
        return AssessmentResult([(trial, restarts[trial]) for trial in sorted(set(answer.hopeless))], [])

    def forget(self, search_id: str) -> None:
        """Drops a search that is over."""
        self._searches.pop(search_id, None)

    def _curves(self, search_id: str, past: Sequence[FeedRow]) -> TrialCurves:
        curves = self._searches.setdefault(search_id, TrialCurves())
        curves.extend(past[curves.rows :])
        return curves


def request_of(search: Search, curves: TrialCurves, limit_s: float) -> AssessmentRequested:
    """Returns the request about a search's past, with as many trials as a record has room for."""
    assessor = search.spec.assessor
    assert assessor is not None
    running = [_shortened(curve) for curve in reversed(curves.running.values())]
    ended = curves.ended[::-1]
    bytes_left, included = REQUEST_BYTES_MAX, 0
    for curve in chain(running, ended):
        bytes_left -= len(json.dumps(curve))
        if bytes_left < 0:
            break
        included += 1
    return AssessmentRequested(
        request_id=f"{search.search_id}/{curves.rows}/{search.assessor_failures.count + 1}",
        search_id=search.search_id,
        assessor=assessor.name,
        options=assessor.model_dump(mode="json")["options"],
        direction=search.spec.direction,
        search_seed=search.seed,
        rows=curves.rows,
        time_limit_s=limit_s if assessor.time_limit_s is None else assessor.time_limit_s,
        running=running[:included],
        ended=ended[: max(0, included - len(running))],
        omitted=len(running) + len(ended) - included,
    )
