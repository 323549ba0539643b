"""Draws how the best value of each scenario of a what-if grows with time."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from trackside.contracts.searches import TrialStatus
from trackside.whatif.canvas import Label, Line, Shape
from trackside.whatif.compare import Comparison, Row

COLORS = ("#222222", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b")
"""Okabe and Ito's, which those who see fewer colours can tell apart; dashes tell them apart without any."""
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
    """Writes a duration in the largest unit of which there are two or more."""
    size, unit = _unit(seconds)
    return f"{seconds / size:.3g} {unit}"


def title_of(row: Row, at: int) -> str:
    """Names a scenario; `at` is its place, the first is as recorded and has no mode."""
    return row.outcome.scenario.name if at == 0 else f"{row.outcome.scenario.name} ({row.mode})"


def shortened(text: str, longest: int) -> str:
    """Leaves out the end of a scenario's name where its title is too long; the mode stays."""
    if len(text) <= longest:
        return text
    tail = text[text.rfind(" (") :] if text.endswith(")") else ""
    return text[: longest - 1 - len(tail)] + "…" + tail


def height_of(found: Comparison) -> float:
    """Gives the height of the curves with their legend, in px."""
    return _HEIGHT + 102 + 18 * math.ceil(len(_with_curve(found.rows)) / 2)


def curves(found: Comparison, top: float, width: float) -> Iterator[Shape]:
    """Draws the best value so far of the scenarios that use freed slots, up to eight of them."""
    rows = _with_curve(found.rows)
    maximize = found.recording.direction == "maximize"
    drawn = [_best_so_far(row, maximize=maximize) for row in rows]
    freed = sum(row.outcome.scenario.freed for row in found.rows)
    yield Label(20, top, "Best value so far", 13, bold=True)
    said = f"{'higher' if maximize else 'lower'} is better"
    if freed > len(rows):
        said += f"; the first {len(rows)} of {freed} scenarios"
    yield Label(170, top, said, 11, color=MUTED)
    if not any(drawn):
        yield Label(20, top + 24, "no trial came to a value", 11, color=MUTED)
        return
    plot = _Plot(rows, drawn, top + 16, width - 30, maximize=maximize)
    yield from plot.axes()
    yield from plot.lines()


class _Plot:
    """Where a moment and a value lie on the page; worse values than most came to early are cut off."""

    def __init__(
        self, rows: Sequence[Row], drawn: Sequence[Curve], upper: float, right: float, *, maximize: bool
    ) -> None:
        self._rows, self._curves = rows, drawn
        self._upper, self._lower, self._right = upper, upper + _HEIGHT, right
        self._span = max(row.outcome.makespan_ms for row in rows) or 1
        early = [_early(row, curve) for row, curve in zip(rows, drawn, strict=True) if curve]
        final = [curve[-1][1] for curve in drawn if curve]
        low, high = (min(early), max(final)) if maximize else (min(final), max(early))
        pad = (high - low) * 0.1 or abs(high) * 0.05 or 1.0
        self._low, self._high = low - pad, high + pad

    def _place(self, ms: float, value: float) -> tuple[float, float]:
        part = (min(max(value, self._low), self._high) - self._low) / (self._high - self._low)
        return _LEFT + (self._right - _LEFT) * ms / self._span, self._lower - _HEIGHT * part

    def axes(self) -> Iterator[Shape]:
        """Draws the grid, with round numbers."""
        for value in _ticks(self._low, self._high):
            y = self._place(0, value)[1]
            yield Line(((_LEFT, y), (self._right, y)), GRID, 1)
            yield Label(_LEFT - 6, y + 4, f"{value:.6g}", 10, "end", MUTED)
        size, unit = _unit(self._span / 1000)
        for moment in _ticks(0, self._span / 1000 / size):
            x = self._place(moment * size * 1000, self._low)[0]
            yield Line(((x, self._lower), (x, self._lower + 4)), GREY, 1)
            yield Label(x, self._lower + 16, f"{moment:g} {unit}", 10, "middle", MUTED)
        yield Line(((_LEFT, self._lower), (self._right, self._lower)), GREY, 1)
        yield Label(self._right, self._lower + 32, "time since the search began", 10, "end", MUTED)
        if any(self._low > value or value > self._high for curve in self._curves for _, value in curve):
            yield Label(_LEFT, self._lower + 32, "worse values, at first, are off the scale", 10, color=MUTED)

    def lines(self) -> Iterator[Shape]:
        """Draws the curves, the first ones broader, so that they show where others lie upon them."""
        for at, (row, curve) in enumerate(zip(self._rows, self._curves, strict=True)):
            width = 2 + 0.55 * (len(self._rows) - 1 - at)
            ends = [*curve, (row.outcome.makespan_ms, curve[-1][1])] if curve else []
            points = []
            for (ms, value), (until, _) in pairwise(ends):
                points += [self._place(ms, value), self._place(until, value)]
            if points:
                yield Line(tuple(points), COLORS[at], width, DASHES[at])
            x = _LEFT + (self._right - _LEFT) / 2 * (at % 2)
            y = self._lower + 58 + 18 * (at // 2)
            yield Line(((x, y - 4), (x + 30, y - 4)), COLORS[at], min(width, 5), DASHES[at])
            yield Label(x + 38, y, shortened(title_of(row, at), _LEGEND_LETTERS), 11)


def _with_curve(rows: Sequence[Row]) -> list[Row]:
    """Gives the rows that are drawn by the clock: those in which freed slots are used, the first of them."""
    return [row for row in rows if row.outcome.scenario.freed][: len(COLORS)]


def _best_so_far(row: Row, *, maximize: bool) -> Curve:
    """Gives (ms, value) wherever the best value of a trial that succeeded gets better."""
    curve: Curve = []
    for fate in sorted(row.outcome.fates, key=lambda fate: fate.ended_ms):
        value = fate.value
        good = fate.trace.status is TrialStatus.SUCCEEDED and not fate.stopped
        if not good or value is None or not math.isfinite(value):
            continue
        if not curve or (value > curve[-1][1] if maximize else value < curve[-1][1]):
            curve.append((fate.ended_ms, value))
    return curve


def _early(row: Row, curve: Curve) -> float:
    """Gives what a scenario had come to after a quarter of its time, or first of all."""
    by_then = [value for ms, value in curve if ms <= row.outcome.makespan_ms / 4]
    return by_then[-1] if by_then else curve[0][1]


def _ticks(low: float, high: float) -> list[float]:
    """Gives four to ten round numbers from `low` to `high`: multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _unit(seconds: float) -> tuple[int, str]:
    return next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), (1, "s"))
