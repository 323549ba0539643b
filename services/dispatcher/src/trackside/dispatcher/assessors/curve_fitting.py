"""Curve fitting: stops a trial whose learning curve is predicted to end below the best completed trial.

The idea is that of NNI's Curvefitting assessor and of Domhan et al. (2015, "Speeding up automatic
hyperparameter optimization by extrapolation of learning curves"): several families of saturating curves are
fitted and averaged. There the average is sampled; here it is computed, so that the same reports give the same
decision. Every family is a straight line in a transformed step, with the third parameter on a grid: every fit
has a closed form.
"""

import numpy as np
from numpy.typing import NDArray

from trackside.aggregates.search.messages import Direction
from trackside.dispatcher.assessors.stopping_rules import CompletedTrialsRule, LearningCurve

Floats = NDArray[np.float64]
_POWERS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
_HALF_LIVES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0)
"""As fractions of the whole length."""
_EXACT = 1e-9
"""The least error of a fit, as a fraction of the range of the reports; smaller ones count as this."""


class CurveFitting(CompletedTrialsRule):
    """Stops a trial whose value at step `epochs` is predicted to be below `threshold` of the best one."""

    def __init__(
        self, direction: Direction, epochs: int, start_step: int = 6, threshold: float = 0.95, gap: int = 1
    ) -> None:
        self._sign = 1.0 if direction == "maximize" else -1.0
        self._epochs = epochs
        self._start_step = start_step
        self._slack = 1.0 - threshold
        self._gap = gap
        self._best: float | None = None

    def on_completed(self, curve: LearningCurve, value: float) -> None:
        """Updates the best value of the completed trials."""
        good = self._sign * value
        self._best = good if self._best is None else max(self._best, good)

    def should_stop(self, curve: LearningCurve) -> bool:
        """Compares the value predicted for the end with the best one, less `1 - threshold` of its size."""
        reports = len(curve.values)
        if self._best is None or reports < self._start_step or not np.isfinite(curve.newest):
            return False
        if (reports - self._start_step) % self._gap or curve.steps[-1] >= self._epochs:
            return False
        predicted = prediction(curve.steps, curve.values, self._epochs)
        return self._sign * predicted < self._best - self._slack * abs(self._best)


def prediction(steps: list[int], values: list[float], end: int) -> float:
    """Returns the predicted value at step `end` of a curve with at least three points: the mean of all fits.

    A fit is weighted by its likelihood: its squared error to the power of minus half the number of points.
    """
    at: Floats = np.asarray(steps, dtype=np.float64)
    reported: Floats = np.asarray(values, dtype=np.float64)
    scale = float(np.ptp(reported))
    if scale == 0.0:
        return values[-1]
    # Steps from 1 on, so that logarithms and powers are defined; the families are unaffected by the shift.
    first = min(float(at[0]), 0.0) - 1.0
    transformed = _transformed(at - first, float(end) - first)
    known, last = transformed[:, :-1], transformed[:, -1]
    middle = known.mean(axis=1, keepdims=True)
    spread = ((known - middle) ** 2).sum(axis=1)
    level = reported.mean()
    slope = ((known - middle) * (reported - level)).sum(axis=1)
    slope /= np.where(spread > 0.0, spread, np.inf)
    fitted = level + slope[:, None] * (known - middle)
    error = ((fitted - reported) ** 2).mean(axis=1) / scale**2
    weight = -0.5 * len(values) * np.log(np.maximum(error, _EXACT**2))
    weight = np.exp(weight - weight.max())
    ends = level + slope * (last - middle[:, 0])
    return float((weight * ends).sum() / weight.sum())


def _transformed(at: Floats, end: float) -> Floats:
    """Returns the transformed steps of each family as a row, with that of the end in the last column."""
    steps = np.append(at, end)
    rows = [np.log(steps), -1.0 / np.log(steps + 1.0)]
    rows += [-(steps**-power) for power in _POWERS]
    rows += [-np.exp(-steps / (life * end)) for life in _HALF_LIVES]
    return np.stack(rows)
