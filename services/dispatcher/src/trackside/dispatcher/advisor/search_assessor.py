"""The assessor of one search: receives reports and ends in the order of the log, and stops trials.

Its decisions are a function of these rows and of the search's seed: a process that is started again and
receives the same rows decides the same.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trackside.aggregates.search.advice.advice_messages import FAILURES_MAX
from trackside.aggregates.search.messages import Direction, TrialStatus
from trackside.aggregates.search.state import RESUMED, FeedRow
from trackside.dispatcher.assessors.stopping_rules import (
    LearningCurve,
    Patient,
    Percentile,
    StoppingRule,
    Threshold,
    Wilcoxon,
)
from trackside.dispatcher.assessors.successive_halving import Hyperband, SuccessiveHalving
from trackside.dispatcher.plugins.user_errors import describe


@dataclass(frozen=True, slots=True)
class StoppingRuleFailure:
    """An exception of a rule at row number `rows`; `failure` counts consecutive ones. Both are from 1 on."""

    rows: int
    trial: int
    failure: int
    type: str
    message: str
    traceback: str


@dataclass(frozen=True, slots=True)
class _Verdict:
    """That a trial is to be stopped: the index of the row that showed it, and the step of that report."""

    row: int
    step: int


class SearchAssessor:
    """The trials of one search, and the stopping rule that decides about each report in turn.

    A trial that is to be stopped stays so until its attempt ends: its further reports are not passed to the
    rule. Steps of an attempt increase; a report that does not is a repeat and is ignored. An attempt that
    resumes has the reports of those before it, below its first step, and the verdicts about them: the rule is
    not asked about a report again. If the rule raises, the trial continues. `failures` are the first of these
    exceptions.
    """

    def __init__(self, assessor: Mapping[str, Any], direction: Direction, seed: int) -> None:
        self._rule = make_rule(assessor, direction, seed)
        self._running: dict[int, LearningCurve] = {}
        self._ended: set[int] = set()
        self._to_stop: dict[int, _Verdict] = {}
        self._before: dict[int, tuple[LearningCurve, _Verdict | None]] = {}
        self._rows = 0
        self._in_a_row = 0
        self.failures: list[StoppingRuleFailure] = []

    def take(self, rows: Iterable[FeedRow]) -> list[tuple[int, int]]:
        """Adds rows; returns each running trial that is to be stopped, with the index of its deciding row."""
        for trial, step, value in rows:
            if trial not in self._ended:
                if isinstance(step, int):
                    self._report(trial, step, value)
                elif step is None:
                    self._restart(trial)
                elif step == RESUMED:
                    self._resume(trial, value)
                else:
                    self._end(trial, step, value)
            self._rows += 1
        return sorted((trial, verdict.row) for trial, verdict in self._to_stop.items())

    def _report(self, trial: int, step: int, value: float | str | None) -> None:
        curve = self._running.get(trial)
        if curve is None:
            curve = self._running[trial] = LearningCurve(trial)
            self._before.pop(trial, None)  # this attempt has not resumed
        if curve.step is not None and step <= curve.step:
            return
        curve.add(step, math.nan if value is None else float(value))
        if trial not in self._to_stop and self._should_stop(curve):
            self._to_stop[trial] = _Verdict(self._rows, step)

    def _should_stop(self, curve: LearningCurve) -> bool:
        try:
            decision = self._rule.should_stop(curve)
        except Exception as error:  # noqa: BLE001  (a user's assessor may raise anything)
            self._in_a_row += 1
            if len(self.failures) < FAILURES_MAX:
                self.failures.append(
                    StoppingRuleFailure(self._rows + 1, curve.number, self._in_a_row, **describe(error))
                )
            return False
        self._in_a_row = 0
        return decision

    def _restart(self, trial: int) -> None:
        curve, verdict = self._running.pop(trial, None), self._to_stop.pop(trial, None)
        if curve is not None:
            self._rule.on_restarted(curve)
            self._before[trial] = curve, verdict

    def _resume(self, trial: int, step: float | str | None) -> None:
        curve, verdict = self._before.pop(trial, (LearningCurve(trial), None))
        curve = self._running[trial] = curve.below(int(step or 0))
        self._rule.on_resumed(curve)
        if verdict is not None and curve.step is not None and verdict.step <= curve.step:
            self._to_stop[trial] = verdict

    def _end(self, trial: int, status: str, value: float | str | None) -> None:
        self._ended.add(trial)
        self._to_stop.pop(trial, None)
        self._before.pop(trial, None)
        curve = self._running.pop(trial, None) or LearningCurve(trial)
        if status == TrialStatus.SUCCEEDED and isinstance(value, int | float):
            self._rule.on_completed(curve, float(value))
        else:
            self._rule.on_ended(curve, status)


def make_rule(assessor: Mapping[str, Any], direction: Direction, seed: int) -> StoppingRule:
    """Creates the stopping rule of an assessor's spec: a built-in or an installed one.

    Raises ValueError if there is none of its name, and any exception of a user's assessor.
    """
    options = dict(assessor.get("options") or {})
    options.pop("mode", None)  # an assessor has one only: it stops trials
    match assessor["name"]:
        case "median":
            return Percentile(direction, 50.0, **options)
        case "percentile":
            return Percentile(direction, **options)
        case "successive-halving" | "asha":
            return SuccessiveHalving(direction, **options)
        case "hyperband":
            return Hyperband(direction, seed, **options)
        case "threshold":
            return Threshold(**options)
        case "patient":
            wrapped = options.pop("wrapped", None)
            return Patient(direction, wrapped and make_rule(wrapped, direction, seed), **options)
        case "wilcoxon":
            return Wilcoxon(direction, **options)
        case "curve-fitting":
            from trackside.dispatcher.assessors.curve_fitting import (
                CurveFitting,  # here: only this one needs numpy
            )

            return CurveFitting(direction, **options)
        case _:
            from trackside.dispatcher.plugins.assessor_plugins import PluginStoppingRule

            return PluginStoppingRule(assessor, direction, seed)
