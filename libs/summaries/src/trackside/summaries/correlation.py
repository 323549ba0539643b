"""How much the numbers of runs go together: Pearson's correlation of hyper-parameters with a target."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

MIN_SAMPLES = 3
"""Two points are always on a line."""


class CorrelationError(ValueError):
    """A correlation that is not defined; `code` is for programs."""

    def __init__(self, code: Literal["too_few", "not_finite", "constant"], message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Correlation:
    """The correlation of a parameter with the target, from -1 to 1; its importance is the absolute value.

    `correlation` is None where there is none, and `skipped` says why: the parameter is `categorical` (not all
    its values are numbers), `constant`, or has a value that is `not_finite`.
    """

    parameter: str
    correlation: float | None
    skipped: str | None = None

    @property
    def importance(self) -> float:
        """The absolute value; 0 without a correlation."""
        return abs(self.correlation or 0.0)


def pearson(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Returns Pearson's correlation of pairs of numbers, from -1 to 1 (K. Pearson, 1895).

    Raises CorrelationError for fewer than three pairs, a value that is not finite, and equal values.
    """
    if len(xs) != len(ys):
        raise ValueError(f"{len(xs)} and {len(ys)} values are not pairs")
    if len(xs) < MIN_SAMPLES:
        raise CorrelationError("too_few", f"{len(xs)} samples; a correlation needs {MIN_SAMPLES}")
    left, right = _deviations(xs), _deviations(ys)
    # Rounding may exceed the range by the last digit.
    return min(1.0, max(-1.0, math.fsum(x * y for x, y in zip(left, right, strict=True))))


def correlations(parameters: Mapping[str, Sequence[Any]], target: Sequence[float]) -> list[Correlation]:
    """Returns the correlation of each parameter with the target, the strongest first, those skipped last.

    A parameter has a value for each one of the target. Raises CorrelationError for a target of fewer than
    three values, one that is not finite, or equal ones.
    """
    if len(target) < MIN_SAMPLES:
        raise CorrelationError("too_few", f"{len(target)} samples; a correlation needs {MIN_SAMPLES}")
    _deviations(target)
    found = [_correlation(name, values, target) for name, values in parameters.items()]
    return sorted(found, key=lambda one: (one.correlation is None, -one.importance, one.parameter))


def _correlation(name: str, values: Sequence[Any], target: Sequence[float]) -> Correlation:
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return Correlation(name, None, "categorical")
    try:
        return Correlation(name, pearson(values, target))
    except CorrelationError as error:
        return Correlation(name, None, error.code)


def _deviations(values: Sequence[float]) -> list[float]:
    """Returns the distances from the mean, with a sum of squares of 1."""
    try:
        floats = [float(value) for value in values]
    except OverflowError:  # an integer that is too large for a float
        floats = [math.inf]
    if not all(math.isfinite(value) for value in floats):
        raise CorrelationError("not_finite", "a value is not finite; a correlation needs finite ones")
    low, high = min(floats), max(floats)
    if low == high:
        raise CorrelationError("constant", f"all values are {low:g}; a correlation needs different ones")
    if math.isinf(high - low):
        floats, low, high = [value / 2 for value in floats], low / 2, high / 2
    # From 0 to 1: the squares of very large and very small values have no float.
    parts = [(value - low) / (high - low) for value in floats]
    mean = math.fsum(parts) / len(parts)
    norm = math.hypot(*(part - mean for part in parts))
    return [(part - mean) / norm for part in parts]
