"""Stopping rules that compare a trial with those that are complete: Optuna's pruners, computed incrementally.

Each decides exactly as Optuna's pruner of that name on the same reports (a test compares them), in time that
hardly grows with the trials: what a decision needs is kept sorted, not collected again for each.
"""

import math
import warnings
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from trackside.aggregates.search.messages import Direction


@dataclass(slots=True)
class LearningCurve:
    """The reports of one attempt of a trial: increasing steps and finite values.

    `newest` is the value of the newest report, finite or not, `step` its step, `earlier` the step of the
    report before it. `not_finite` are the other reports. `rungs` are the steps and values with which it has
    passed the rungs of successive halving, in `bracket`.
    """

    number: int
    step: int | None = None
    earlier: int | None = None
    newest: float = math.nan
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    low: float = math.inf
    high: float = -math.inf
    rungs: list[tuple[int, float]] = field(default_factory=list)
    bracket: int = 0
    not_finite: list[tuple[int, float]] = field(default_factory=list)

    def add(self, step: int, value: float) -> None:
        """Adds a report of a later step."""
        self.earlier, self.step, self.newest = self.step, step, value
        if math.isfinite(value):
            self.steps.append(step)
            self.values.append(value)
            self.low = min(self.low, value)
            self.high = max(self.high, value)
        else:
            self.not_finite.append((step, value))

    def below(self, step: int) -> "LearningCurve":
        """Returns the curve as it was before the first report that is not below a step."""
        curve = LearningCurve(self.number, bracket=self.bracket)
        reports = [*zip(self.steps, self.values, strict=True), *self.not_finite]
        for at, value in sorted(reports, key=lambda report: report[0]):
            if at < step:
                curve.add(at, value)
        curve.rungs = [rung for rung in self.rungs if rung[0] < step]
        return curve


class StoppingRule(Protocol):
    """Decides which trials of one search to stop; called in the order of the log."""

    def should_stop(self, curve: LearningCurve) -> bool:
        """Returns whether a trial is to be stopped at its newest report."""
        ...

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Adds a trial that succeeded with a value, for others to be compared with."""
        ...

    def on_ended(self, curve: LearningCurve, state: str) -> None:
        """Adds a trial that ended in another way."""
        ...

    def on_restarted(self, curve: LearningCurve) -> None:
        """Removes an attempt: another one of the same trial has started."""
        ...

    def on_resumed(self, curve: LearningCurve) -> None:
        """Adds again what counts of an attempt that was removed: the other one continues from there."""
        ...


class CompletedTrialsRule:
    """A rule that depends on completed trials only."""

    def on_ended(self, curve: LearningCurve, state: str) -> None:
        """Does nothing."""

    def on_restarted(self, curve: LearningCurve) -> None:
        """Does nothing."""

    def on_resumed(self, curve: LearningCurve) -> None:
        """Does nothing."""


def percentile_of(ordered: Sequence[float], percent: float) -> float:
    """Returns the percentile of sorted finite values, exactly as numpy's linear method."""
    position = (len(ordered) - 1) * (percent / 100)
    low = math.floor(position)
    if low + 1 >= len(ordered):
        return ordered[-1]
    fraction = position - low
    gap = ordered[low + 1] - ordered[low]
    return ordered[low] + gap * fraction if fraction < 0.5 else ordered[low + 1] - gap * (1 - fraction)


def is_due(step: int, earlier: int | None, n_warmup_steps: int, interval_steps: int) -> bool:
    """Returns whether a step is after the warm-up, and the first one of its interval."""
    if step < n_warmup_steps:
        return False
    begin = (step - n_warmup_steps) // interval_steps * interval_steps + n_warmup_steps
    return earlier is None or earlier < begin


class Percentile(CompletedTrialsRule):
    """Stops a trial whose best value so far is worse than a percentile of the completed ones at its step."""

    def __init__(
        self,
        direction: Direction,
        percentile: float,
        n_startup_trials: int = 5,
        n_warmup_steps: int = 0,
        interval_steps: int = 1,
        n_min_trials: int = 1,
    ) -> None:
        self._maximize = direction == "maximize"
        self._percent = 100 - percentile if self._maximize else percentile
        self._n_startup_trials = max(1, n_startup_trials)
        self._pace = (n_warmup_steps, interval_steps)
        self._n_min_trials = n_min_trials
        self._completed = 0
        self._at: dict[int, list[float]] = {}

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Adds a trial's reports to those of the same steps."""
        self._completed += 1
        for step, reported in zip(curve.steps, curve.values, strict=True):
            insort(self._at.setdefault(step, []), reported)

    def should_stop(self, curve: LearningCurve) -> bool:
        """Compares the best value so far with the percentile at the newest step."""
        if self._completed < self._n_startup_trials or not math.isfinite(curve.newest):
            return False
        step, earlier = curve.steps[-1], curve.steps[-2] if len(curve.steps) > 1 else None
        if not is_due(step, earlier, *self._pace):
            return False
        others = self._at.get(step, ())
        if len(others) < self._n_min_trials:
            return False
        border = percentile_of(others, self._percent)
        return curve.high < border if self._maximize else curve.low > border


class Threshold(CompletedTrialsRule):
    """Stops a trial whose newest value is out of bounds, or NaN."""

    def __init__(
        self,
        lower: float = -math.inf,
        upper: float = math.inf,
        n_warmup_steps: int = 0,
        interval_steps: int = 1,
    ) -> None:
        self._lower, self._upper = lower, upper
        self._pace = (n_warmup_steps, interval_steps)

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Does nothing: the bounds are fixed."""

    def should_stop(self, curve: LearningCurve) -> bool:
        """Compares the newest value with the bounds."""
        if curve.step is None or not is_due(curve.step, curve.earlier, *self._pace):
            return False
        return math.isnan(curve.newest) or not self._lower <= curve.newest <= self._upper


class Patient:
    """Stops a trial only if it has not improved for some reports, and another rule, if any, stops it."""

    def __init__(
        self, direction: Direction, wrapped: StoppingRule | None, patience: int, min_delta: float = 0.0
    ) -> None:
        self._maximize = direction == "maximize"
        self._wrapped = wrapped
        self._patience = patience
        self._min_delta = min_delta

    def should_stop(self, curve: LearningCurve) -> bool:
        """Compares the best of the last `patience` + 1 reports with the best before."""
        window = self._patience + 1
        if len(curve.values) <= window or not math.isfinite(curve.newest):
            return False
        before, after = curve.values[:-window], curve.values[-window:]
        if self._maximize:
            is_stuck = max(before) - self._min_delta > max(after)
        else:
            is_stuck = min(before) + self._min_delta < min(after)
        return is_stuck and (self._wrapped is None or self._wrapped.should_stop(curve))

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Calls the wrapped rule."""
        if self._wrapped is not None:
            self._wrapped.on_completed(curve, value)

    def on_ended(self, curve: LearningCurve, state: str) -> None:
        """Calls the wrapped rule."""
        if self._wrapped is not None:
            self._wrapped.on_ended(curve, state)

    def on_restarted(self, curve: LearningCurve) -> None:
        """Calls the wrapped rule."""
        if self._wrapped is not None:
            self._wrapped.on_restarted(curve)

    def on_resumed(self, curve: LearningCurve) -> None:
        """Calls the wrapped rule."""
        if self._wrapped is not None:
            self._wrapped.on_resumed(curve)


class Wilcoxon(CompletedTrialsRule):
    """Stops a trial whose reports are worse than the best trial's at equal steps, by a signed-rank test."""

    def __init__(self, direction: Direction, p_threshold: float = 0.1, n_startup_steps: int = 2) -> None:
        self._maximize = direction == "maximize"
        self._p_threshold = p_threshold
        self._least = max(2, n_startup_steps)
        self._best: tuple[float, dict[int, float]] | None = None

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Updates the reports of the best trial, the first one of equal ones."""
        known = math.nan if self._best is None else self._best[0]
        if self._best is None or (value > known if self._maximize else value < known):
            self._best = value, dict(zip(curve.steps, curve.values, strict=True))

    def should_stop(self, curve: LearningCurve) -> bool:
        """Tests the differences; a trial that is better on average than the best one is never stopped."""
        if self._best is None or not self._best[1] or not math.isfinite(curve.newest):
            return False
        best = self._best[1]
        pairs = zip(curve.steps, curve.values, strict=True)
        differences = [value - best[step] for step, value in pairs if step in best]
        if len(differences) < self._least:
            return False
        bests, ours = _mean(list(best.values())), _mean(curve.values)
        # Before the test, which takes more time than everything else here.
        is_worse = bests > ours if self._maximize else bests < ours
        return is_worse and _p_value(differences, "less" if self._maximize else "greater") < self._p_threshold


def _p_value(differences: Sequence[float], alternative: str) -> float:
    # Here, as its import is slow and most searches do not need it.
    from scipy.stats import wilcoxon  # type: ignore[import-untyped]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about small samples: the user has set how small they may be
        return float(wilcoxon(differences, alternative=alternative, zero_method="zsplit").pvalue)


def _mean(values: Sequence[float]) -> float:
    total = 0.0  # added one by one, as in Optuna: `sum` of newer Pythons is more exact
    for value in values:
        total += value
    return total / len(values)
