"""Draws the best value of each scenario of a what-if over time."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from trackside.aggregates.search.messages import TrialStatus
from trackside.summaries.axes import ticks
from trackside.whatif.charts.canvas import Label, Polyline, Shape
from trackside.whatif.compare import Comparison, ScenarioResult

COLORS = ("#222222", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b")
"""The palette of Okabe and Ito, for colour-blind readers; dashes tell curves apart without colours."""
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (),
    (9, 4),
    (3, 3),
    (12, 3, 3, 3),
    (),
    (9, 4),
    (3, 3),
)
GREY, MUTED, GRID = "#9a9a9a", "#666666", "#e4e4e4"
_HEIGHT, _LEFT, _LEGEND_LETTERS = 250.0, 80.0, 58
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
Curve = list[tuple[int, float]]


def duration(seconds: float) -> str:
    """Formats a duration in the largest unit of which there are two or more."""
    size, unit = _unit(seconds)
    return f"{seconds / size:.3g} {unit}"


def title_of(result: ScenarioResult, index: int) -> str:
    """Returns the title of a scenario; `index` 0 is the search as recorded, which has no mode."""
    return result.search.scenario.name if index == 0 else f"{result.search.scenario.name} ({result.mode})"


def shortened(text: str, longest: int) -> str:
    """Shortens the name of a scenario whose title is too long, and keeps its mode."""
    if len(text) <= longest:
        return text
    tail = text[text.rfind(" (") :] if text.endswith(")") else ""
    return text[: longest - 1 - len(tail)] + "…" + tail


def height_of(comparison: Comparison) -> float:
    """Returns the height of the curves with their legend, in px."""
    return _HEIGHT + 102 + 18 * math.ceil(len(_with_curve(comparison.results)) / 2)


def curves(comparison: Comparison, top: float, width: float) -> Iterator[Shape]:
    """Draws the best value so far of up to eight scenarios that use freed slots."""
    results = _with_curve(comparison.results)
    maximize = comparison.recording.direction == "maximize"
    drawn = [_best_so_far(result, maximize=maximize) for result in results]
    freed = sum(result.search.scenario.freed for result in comparison.results)
    yield Label(20, top, "Best value so far", 13, bold=True)
    note = f"{'higher' if maximize else 'lower'} is better"
    if freed > len(results):
        note += f"; the first {len(results)} of {freed} scenarios"
    yield Label(170, top, note, 11, color=MUTED)
    if not any(drawn):
        yield Label(20, top + 24, "no trial has a value", 11, color=MUTED)
        return
    plot = _Plot(results, drawn, top + 16, width - 30, maximize=maximize)
    yield from plot.axes()
    yield from plot.lines()


class _Plot:
    """The scales of the plot; values far worse than early ones are cut off."""

    def __init__(
        self,
        results: Sequence[ScenarioResult],
        drawn: Sequence[Curve],
        upper: float,
        right: float,
        *,
        maximize: bool,
    ) -> None:
        self._results, self._curves = results, drawn
        self._upper, self._lower, self._right = upper, upper + _HEIGHT, right
        self._span = max(result.search.makespan_ms for result in results) or 1
        early = [_early(result, curve) for result, curve in zip(results, drawn, strict=True) if curve]
        final = [curve[-1][1] for curve in drawn if curve]
        low, high = (min(early), max(final)) if maximize else (min(final), max(early))
        pad = (high - low) * 0.1 or abs(high) * 0.05 or 1.0
        self._low, self._high = low - pad, high + pad

    def _place(self, ms: float, value: float) -> tuple[float, float]:
        part = (min(max(value, self._low), self._high) - self._low) / (self._high - self._low)
        return _LEFT + (self._right - _LEFT) * ms / self._span, self._lower - _HEIGHT * part

    def axes(self) -> Iterator[Shape]:
        """Draws the grid at round numbers."""
        for value in ticks(self._low, self._high):
            y = self._place(0, value)[1]
            yield Polyline(((_LEFT, y), (self._right, y)), GRID, 1)
            yield Label(_LEFT - 6, y + 4, f"{value:.6g}", 10, "end", MUTED)
        size, unit = _unit(self._span / 1000)
        for moment in ticks(0, self._span / 1000 / size):
            x = self._place(moment * size * 1000, self._low)[0]
            yield Polyline(((x, self._lower), (x, self._lower + 4)), GREY, 1)
            yield Label(x, self._lower + 16, f"{moment:g} {unit}", 10, "middle", MUTED)
        yield Polyline(((_LEFT, self._lower), (self._right, self._lower)), GREY, 1)
        yield Label(self._right, self._lower + 32, "time since the search began", 10, "end", MUTED)
        if any(self._low > value or value > self._high for curve in self._curves for _, value in curve):
            yield Label(_LEFT, self._lower + 32, "worse values, at first, are off the scale", 10, color=MUTED)

    def lines(self) -> Iterator[Shape]:
        """Draws the curves, the first ones wider, so that they show under others."""
        for index, (result, curve) in enumerate(zip(self._results, self._curves, strict=True)):
            width = 2 + 0.55 * (len(self._results) - 1 - index)
            ends = [*curve, (result.search.makespan_ms, curve[-1][1])] if curve else []
            points = []
            for (ms, value), (until, _) in pairwise(ends):
                points += [self._place(ms, value), self._place(until, value)]
            if points:
                yield Polyline(tuple(points), COLORS[index], width, DASHES[index])
            x = _LEFT + (self._right - _LEFT) / 2 * (index % 2)
            y = self._lower + 58 + 18 * (index // 2)
            yield Polyline(((x, y - 4), (x + 30, y - 4)), COLORS[index], min(width, 5), DASHES[index])
            yield Label(x + 38, y, shortened(title_of(result, index), _LEGEND_LETTERS), 11)


def _with_curve(results: Sequence[ScenarioResult]) -> list[ScenarioResult]:
    """Returns the results that are drawn over time: the first ones that use freed slots."""
    return [result for result in results if result.search.scenario.freed][: len(COLORS)]


def _best_so_far(result: ScenarioResult, *, maximize: bool) -> Curve:
    """Returns (ms, value) wherever the best value of the succeeded trials improves."""
    curve: Curve = []
    for trial in sorted(result.search.trials, key=lambda trial: trial.ended_ms):
        value = trial.value
        good = trial.trace.status is TrialStatus.SUCCEEDED and not trial.stopped
        if not good or value is None or not math.isfinite(value):
            continue
        if not curve or (value > curve[-1][1] if maximize else value < curve[-1][1]):
            curve.append((trial.ended_ms, value))
    return curve


def _early(result: ScenarioResult, curve: Curve) -> float:
    """Returns the best value after a quarter of the time, else the first one."""
    by_then = [value for ms, value in curve if ms <= result.search.makespan_ms / 4]
    return by_then[-1] if by_then else curve[0][1]


def _unit(seconds: float) -> tuple[int, str]:
    return next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), (1, "s"))
