"""Curves ready to be drawn, in the terminal or as a picture: in order, thinned, on common axes."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.summaries.axes import (
    clock_labels,
    duration_labels,
    log_ticks,
    number_labels,
    short_number,
    ticks,
    time_ticks,
)
from trackside.summaries.curves import CurveAxis
from trackside.summaries.thinning import POINTS_PER_BUCKET, thin

AXIS_NAMES = {"step": "step", "relative": "time", "wall": "UTC"}
NOT_FINITE = "\N{MULTIPLICATION SIGN}"

_EXACT = 2**53
"""Integers from which on floats leave some out."""


@dataclass(frozen=True, slots=True)
class ChartCurve:
    """One curve of a chart: equally long arrays; values that are not finite are gaps.

    Positions are steps, seconds or milliseconds since 1970, as the chart's axis says; in any order.
    """

    name: str
    positions: NDArray[Any]
    values: NDArray[Any]


@dataclass(frozen=True, slots=True)
class PlotScale:
    """A linear range of values or positions."""

    low: Any
    high: Any

    @classmethod
    def over(cls, values: NDArray[Any], around: float = 0.0) -> "PlotScale":
        """Returns the range of finite values; for a single value, one that reaches `around` it."""
        low, high = values.min().item(), values.max().item()
        return cls(low - around, high + around) if low == high and around else cls(low, high)

    def parts(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Returns where values are in the range: 0 at its low end, 1 at its high end; a point has 0.5."""
        if self.low == self.high:
            return np.full(len(values), 0.5)
        if isinstance(self.low, int) and self.high - self.low < 2**63:
            return np.asarray((values - self.low) / (self.high - self.low), dtype=np.float64)
        # A quarter of each: the difference of very large numbers has no float.
        low, span = self.low / 4, self.high / 4 - self.low / 4
        if span == 0:
            return np.asarray((values - self.low) / (self.high - self.low), dtype=np.float64)
        return np.asarray((values / 4 - low) / span, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class PreparedCurve:
    """A curve in the order of its positions and thinned; its values as logarithms on a logarithmic axis.

    `finite` says which values can be drawn. `label` is its name with its last value, `gaps` are the kinds of
    values that cannot be drawn, and `not_positive` counts those that a logarithmic axis has no place for.
    """

    label: str
    index: int
    positions: NDArray[Any]
    values: NDArray[np.float64]
    finite: NDArray[np.bool_]
    gaps: frozenset[str]
    not_positive: int

    @classmethod
    def of(cls, curve: ChartCurve, index: int, columns: int, *, log_y: bool) -> "PreparedCurve":
        """Returns a curve for a plot of so many columns; raises ValueError for arrays of unequal lengths."""
        if curve.positions.shape != curve.values.shape:
            sizes = f"{len(curve.positions)} positions and {len(curve.values)} values"
            raise ValueError(f"{sizes} are not one curve")
        order = np.argsort(curve.positions, kind="stable")
        positions, values = curve.positions[order], np.asarray(curve.values, dtype=np.float64)[order]
        finite = values[np.isfinite(values)]
        last = f"  last {short_number(float(finite[-1]))}" if len(finite) else "  no values"
        kinds = {"NaN": np.isnan(values), "Inf": values == np.inf, "-Inf": values == -np.inf}
        gaps = frozenset(name for name, found in kinds.items() if found.any())
        if log_y:
            positive = np.isfinite(values) & (values > 0)
            values = np.where(positive, np.log10(np.where(positive, values, 1.0)), np.nan)
        kept = thin(positions, values, POINTS_PER_BUCKET * columns)
        return cls(
            printable_name(curve.name) + last,
            index,
            positions[kept],
            values[kept],
            np.isfinite(values[kept]),
            gaps,
            int((finite <= 0).sum()) if log_y else 0,
        )


@dataclass(frozen=True, slots=True)
class Plot:
    """Curves with the ranges of their axes, which are None if nothing can be drawn."""

    curves: list[PreparedCurve]
    axis: CurveAxis
    log_y: bool
    x: PlotScale | None
    y: PlotScale | None

    @classmethod
    def of(cls, curves: Sequence[ChartCurve], axis: CurveAxis, columns: int, *, log_y: bool) -> "Plot":
        """Returns a plot of curves over so many columns; raises ValueError for arrays of unequal lengths."""
        prepared = [PreparedCurve.of(curve, at, columns, log_y=log_y) for at, curve in enumerate(curves)]
        values = np.concatenate([np.empty(0), *(one.values[one.finite] for one in prepared)])
        if not len(values):
            return cls(prepared, axis, log_y, None, None)
        ends = np.concatenate([one.positions[[0, -1]] for one in prepared if len(one.positions)])
        around = 0.5 if log_y else abs(float(values[0])) * 0.05 or 1.0
        return cls(prepared, axis, log_y, PlotScale.over(ends), PlotScale.over(values, around))

    def gaps(self) -> list[str]:
        """Returns what the curves have that cannot be drawn: `NaN`, `Inf`, `-Inf`, `3 not positive`."""
        found = {kind for one in self.curves for kind in one.gaps}
        kinds = sorted(found, key=["NaN", "Inf", "-Inf"].index)
        not_positive = sum(one.not_positive for one in self.curves)
        return [*kinds, f"{not_positive} not positive"] if not_positive else kinds

    def empty_text(self) -> str:
        """Returns what is shown if nothing can be drawn."""
        return "no values to draw" if any(len(one.values) for one in self.curves) else "no points"

    def y_ticks(self, count: int, longest: int) -> list[tuple[float, str]]:
        """Returns about `count` places on the value axis, from 0 to 1, and their labels.

        If the exact ones are longer than `longest` characters, they have four digits.
        """
        assert self.y is not None
        if self.log_y:
            low, high = (10.0 ** min(max(end, -323), 308) for end in (self.y.low, self.y.high))
            values = log_ticks(low, high, count)
            labels, places = [short_number(value) for value in values], np.log10(values)
        else:
            values = ticks(self.y.low, self.y.high, count)
            labels, places = number_labels(values), np.array(values)
        if max(map(len, labels)) > longest:
            labels = [short_number(value) for value in values]
        at = self.y.parts(places).tolist()
        return [(place, label) for place, label in zip(at, labels, strict=True) if 0 <= place <= 1]

    def x_ticks(self, count: int) -> list[tuple[float, str]]:
        """Returns about `count` places on the axis of positions, from 0 to 1, and their labels."""
        assert self.x is not None
        positions, labels = _x_ticks(self.x, count, self.axis)
        return list(zip(self.x.parts(np.array(positions)).tolist(), labels, strict=True))


def printable_name(text: str) -> str:
    """Returns text with its control characters, and what changes the order of letters, as escapes."""
    return "".join(
        f"\\x{ord(letter):02x}" if unicodedata.category(letter)[0] == "C" else letter for letter in text
    )


def _x_ticks(x: PlotScale, count: int, axis: CurveAxis) -> tuple[list[Any], list[str]]:
    """Returns the positions of the ticks of the lower axis, and their labels."""
    match axis:
        case "step" if isinstance(x.low, int) and max(-x.low, x.high) >= _EXACT > x.high - x.low:
            # No float tells such steps apart: the first one is shown, the others by their distance.
            later = [int(offset) for offset in ticks(0, x.high - x.low, count) if offset and offset % 1 == 0]
            labels = [str(x.low), *(f"+{label}" for label in number_labels(later))]
            return [x.low, *(x.low + offset for offset in later)], labels
        case "step":
            values = ticks(x.low, x.high, count)
            values = [value for value in values if value == round(value)] or values[:1]
            return values, number_labels(values)
        case "relative":
            values = time_ticks(x.low, x.high, count)
            return values, duration_labels(values)
        case "wall":
            values = time_ticks(x.low / 1000, x.high / 1000, count)
            return [value * 1000 for value in values], clock_labels(values)
