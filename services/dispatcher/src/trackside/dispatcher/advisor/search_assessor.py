"""One search's assessor at work: told what happened in the order of the log, it says who is to be stopped.

What it says is a function of what it was told and of the search's seed: told again from the start, after its
process was killed, it says the same.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from trackside.contracts.advice import FAILURES_MAX
from trackside.contracts.searches import Direction, TrialStatus
from trackside.dispatcher.assessors.stopping_rules import (
    LearningCurve,
    Patient,
    Percentile,
    StoppingRule,
    Threshold,
    Wilcoxon,
)
from trackside.dispatcher.assessors.successive_halving import Hyperband, SuccessiveHalving
from trackside.dispatcher.plugins.user_errors import described
from trackside.domain.past import Row


@dataclass(frozen=True, slots=True)
class StoppingRuleFailure:
    """What a rule raised upon the report in row `rows` of the past; `failure` counts those in a row."""

    rows: int
    trial: int
    failure: int
    type: str
    message: str
    traceback: str


class SearchAssessor:
    """The trials of one search as its assessor knows them.

    A report is judged as it is taken in. A trial that was found hopeless stays so until its attempt ends:
    what it reports meanwhile is not judged. Steps of an attempt rise; what doesn't is a repeat and is
    ignored. A rule that raises has said nothing: its trial goes on. `failures` are the first of these.
    """

    def __init__(self, assessor: Mapping[str, Any], direction: Direction, seed: int) -> None:
        self._rule = rule_of(assessor, direction, seed)
        self._running: dict[int, LearningCurve] = {}
        self._ended: set[int] = set()
        self._hopeless: dict[int, int] = {}
        self._rows = 0
        self._in_a_row = 0
        self.failures: list[StoppingRuleFailure] = []

    def take(self, rows: Iterable[Row]) -> list[tuple[int, int]]:
        """Takes in rows; gives each running trial that is hopeless, and the place of the row that said so."""
        for trial, step, value in rows:
            if trial not in self._ended:
                if isinstance(step, int):
                    self._report(trial, step, value)
                elif step is None:
                    self._restart(trial)
                else:
                    self._end(trial, step, value)
            self._rows += 1
        return sorted(self._hopeless.items())

    def _report(self, trial: int, step: int, value: float | str | None) -> None:
        curve = self._running.get(trial)
        if curve is None:
            curve = self._running[trial] = LearningCurve(trial)
        if curve.step is not None and step <= curve.step:
            return
        curve.earlier, curve.step = curve.step, step
        curve.newest = math.nan if value is None else float(value)
        if math.isfinite(curve.newest):
            curve.steps.append(step)
            curve.values.append(curve.newest)
            curve.low = min(curve.low, curve.newest)
            curve.high = max(curve.high, curve.newest)
        if trial not in self._hopeless and self._judged(curve):
            self._hopeless[trial] = self._rows

    def _judged(self, curve: LearningCurve) -> bool:
        try:
            verdict = self._rule.should_stop(curve)
        except Exception as error:  # noqa: BLE001  (a user's assessor may raise anything)
            self._in_a_row += 1
            if len(self.failures) < FAILURES_MAX:
                self.failures.append(
                    StoppingRuleFailure(self._rows + 1, curve.number, self._in_a_row, **described(error))
                )
            return False
        self._in_a_row = 0
        return verdict

    def _restart(self, trial: int) -> None:
        curve = self._running.pop(trial, None)
        if curve is not None:
            self._rule.on_restarted(curve)
        self._hopeless.pop(trial, None)

    def _end(self, trial: int, status: str, value: float | str | None) -> None:
        self._ended.add(trial)
        self._hopeless.pop(trial, None)
        curve = self._running.pop(trial, None) or LearningCurve(trial)
        if status == TrialStatus.SUCCEEDED and isinstance(value, int | float):
            self._rule.on_completed(curve, float(value))
        else:
            self._rule.on_ended(curve, status)


def rule_of(assessor: Mapping[str, Any], direction: Direction, seed: int) -> StoppingRule:
    """Makes the rule of an assessor's spec: ours, or an installed one; raises ValueError if there is none.

    A user's assessor may raise anything.
    """
    options = dict(assessor.get("options") or {})
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
            return Patient(direction, wrapped and rule_of(wrapped, direction, seed), **options)
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
