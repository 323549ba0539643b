"""What is computed from curves for display: smoothing, the best value so far, the spread over runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

_Floats = NDArray[np.float64]
CurveAxis = Literal["step", "relative", "wall"]
"""Steps; seconds since the first point; milliseconds since 1970."""

TIME_POINTS = 200
"""Positions in time at which runs are compared, unless set."""


@dataclass(frozen=True, slots=True)
class RunSpread:
    """The mean and spread of several runs at ascending positions: equally long arrays.

    `count` says how many runs have a finite value at a position; the others do not contribute. `std` is the
    standard deviation of those values themselves (divided by `count`), 0 for one run.
    """

    positions: NDArray[Any]
    count: NDArray[np.int64]
    mean: _Floats
    std: _Floats
    least: _Floats
    greatest: _Floats


def smoothed(values: NDArray[Any], weight: float) -> _Floats:
    """Returns the exponential moving average of values: weight 0 changes nothing, near 1 is very smooth.

    The average begins at 0 and is divided by `1 - weight ** n` after n values, so the first ones are not
    drawn to 0. TensorBoard's slider shows the same (`classicSmoothing` in its `data_transformer.ts`): a value
    that is not finite stays as it is and does not change the average, and a constant curve stays as it is.
    Raises ValueError for a weight that is not in [0, 1).
    """
    if not 0 <= weight < 1:
        raise ValueError(f"the weight of smoothing must be at least 0 and less than 1, not {weight}")
    result = np.array(values, dtype=np.float64)
    finite = np.isfinite(result)
    known = result[finite]
    if weight == 0 or len(known) == 0 or bool((known == known[0]).all()):
        return result
    means = accumulate(known.tolist(), lambda mean, value: mean * weight + (1 - weight) * value, initial=0.0)
    biased = np.fromiter(means, np.float64, len(known) + 1)[1:]
    # 1 - weight ** n, without the loss of digits for a weight near 1.
    result[finite] = biased / -np.expm1(np.arange(1, len(known) + 1) * np.log(weight))
    return result


def best_so_far(values: NDArray[Any], direction: Literal["min", "max"]) -> _Floats:
    """Returns the least or greatest finite value up to each point; NaN before the first one."""
    worst = np.inf if direction == "min" else -np.inf
    known = np.where(np.isfinite(values), values, worst)
    best = np.minimum.accumulate(known) if direction == "min" else np.maximum.accumulate(known)
    return np.where(np.isfinite(best), best, np.nan)


def positions_of(steps: NDArray[Any], times_ms: NDArray[Any], axis: CurveAxis) -> NDArray[Any]:
    """Returns where points are on an axis: their steps, seconds since the first one, or ms since 1970.

    Times are those of the clocks that took them, so positions in time may fall.
    """
    match axis:
        case "step":
            return steps
        case "wall":
            return times_ms
        case "relative":
            return np.asarray((times_ms - times_ms[:1]) / 1000)


def within(positions: NDArray[Any], low: float | None = None, high: float | None = None) -> NDArray[np.int64]:
    """Returns the indexes of the points from `low` to `high`, both included; None is no bound."""
    inside = np.ones(len(positions), dtype=np.bool_)
    if low is not None:
        inside &= positions >= low
    if high is not None:
        inside &= positions <= high
    return np.flatnonzero(inside)


def spread_by_step(
    runs: Sequence[tuple[NDArray[Any], NDArray[Any]]], where: Literal["all", "some"] = "some"
) -> RunSpread:
    """Returns the spread of runs (steps, values) at the steps at which all or some have a finite value.

    Nothing is interpolated. Of a step that a run has more than once, the first value is the run's.
    """
    finite = [_finite(steps, values) for steps, values in runs]
    positions = _union([steps for steps, _ in finite])
    table = np.full((len(runs), len(positions)), np.nan)
    for row, (steps, values) in zip(table, finite, strict=True):
        firsts, at = np.unique(steps, return_index=True)
        row[np.searchsorted(positions, firsts)] = values[at]
    return _spread(positions, table, where)


def spread_by_time(
    runs: Sequence[tuple[NDArray[Any], NDArray[Any]]],
    where: Literal["all", "some"] = "some",
    points: int = TIME_POINTS,
) -> RunSpread:
    """Returns the spread of runs (seconds since their first points, values) at up to `points` even times.

    At a time, the value of a run is its last finite one up to then; a run has none before its first point and
    after its last. Seconds that fall are sorted.
    """
    finite = [_finite(seconds, values) for seconds, values in runs]
    known = [seconds for seconds, _ in finite if len(seconds)]
    if not known:
        return _spread(np.empty(0), np.empty((len(runs), 0)), where)
    low, high = min(float(one.min()) for one in known), max(float(one.max()) for one in known)
    positions = np.unique(np.linspace(low, high, points))
    table = np.full((len(runs), len(positions)), np.nan)
    for row, (seconds, values) in zip(table, finite, strict=True):
        order = np.argsort(seconds, kind="stable")
        at = np.searchsorted(seconds[order], positions, side="right") - 1
        during = (at >= 0) & (positions <= seconds.max(initial=-np.inf))
        row[during] = values[order][at[during]]
    return _spread(positions, table, where)


def _finite(positions: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[Any], _Floats]:
    if positions.shape != values.shape:
        raise ValueError(f"{len(positions)} positions and {len(values)} values are not one curve")
    finite = np.isfinite(values)
    return positions[finite], np.asarray(values[finite], dtype=np.float64)


def _union(positions: list[NDArray[Any]]) -> NDArray[Any]:
    return np.unique(np.concatenate(positions)) if positions else np.empty(0, np.int64)


def _spread(positions: NDArray[Any], table: _Floats, where: Literal["all", "some"]) -> RunSpread:
    """Reduces a table of runs x positions, NaN where a run has no value."""
    count = np.isfinite(table).sum(axis=0)
    kept = count == len(table) if where == "all" else count > 0
    kept &= count > 0
    table, count, positions = table[:, kept], count[kept], positions[kept]
    finite = np.isfinite(table)
    # Each value is divided before the sum: a sum of very large values has no float.
    mean = np.where(finite, table / count, 0.0).sum(axis=0)
    with np.errstate(over="ignore"):
        squares = np.where(finite, np.square(table - mean), 0.0)
    return RunSpread(
        positions,
        count,
        mean,
        np.sqrt((squares / count).sum(axis=0)),
        np.where(finite, table, np.inf).min(axis=0, initial=np.inf),
        np.where(finite, table, -np.inf).max(axis=0, initial=-np.inf),
    )
