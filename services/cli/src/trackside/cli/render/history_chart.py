"""Draws the values of a search's trials in their order, and the best one so far."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from trackside.domain.display.report import HistoryPoint, ReportSection
from trackside.domain.display.text import number
from trackside.summaries.axes import ticks
from trackside.summaries.charts import sparkline as line_of_blocks
from trackside.whatif.charts.canvas import Box, Label, Polyline, Shape, svg

WIDTH, HEIGHT = 900.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 80.0, 880.0, 34.0, 270.0
DOT = 5.0
COUNTED, STOPPED, BEST, MUTED, GRID = "#56b4e9", "#e69f00", "#0072b2", "#666666", "#e4e4e4"
SHOWN_SHARE = 0.9
"""The share of the values that the scale is made for; worse ones are drawn at its edge."""
SPARK_WIDTH = 60


def history_svg(section: ReportSection) -> str:
    """Returns the chart as an SVG element, empty if there are fewer than two values."""
    if len(section.history) < 2:
        return ""
    better = "higher" if section.direction == "maximize" else "lower"
    return svg(WIDTH, HEIGHT, list(_shapes(section, better)), f"value of each trial, {better} is better")


def sparkline(section: ReportSection) -> str:
    """Returns the best value so far as a line of blocks, at most 60; empty if there are fewer than two."""
    best = [value for _, value in best_so_far(section.history, maximize=section.direction == "maximize")]
    return line_of_blocks(best, SPARK_WIDTH) if len(best) > 1 else ""


def best_so_far(history: Sequence[HistoryPoint], *, maximize: bool) -> list[tuple[int, float]]:
    """Returns the best value after each part that counts, with the number of that part."""
    found: list[tuple[int, float]] = []
    for point in history:
        if point.counts:
            before = found[-1][1] if found else point.value
            found.append((point.number, max(before, point.value) if maximize else min(before, point.value)))
    return found


def _shapes(section: ReportSection, better: str) -> Iterator[Shape]:
    maximize = section.direction == "maximize"
    values = sorted((point.value for point in section.history), reverse=maximize)
    ends = values[0], values[int((len(values) - 1) * SHOWN_SHARE)]
    pad = (max(ends) - min(ends)) * 0.06 or abs(ends[0]) * 0.05 or 1.0
    low, high = min(ends) - pad, max(ends) + pad
    last = max(1, section.history[-1].number)

    def place(trial: float, value: float) -> tuple[float, float]:
        part = (min(max(value, low), high) - low) / (high - low)
        return LEFT + (RIGHT - LEFT) * trial / last, BOTTOM - (BOTTOM - TOP) * part

    yield Label(LEFT, 18, f"Value of each trial ({better} is better)", 13, bold=True)
    for value in ticks(low, high):
        y = place(0, value)[1]
        yield Polyline(((LEFT, y), (RIGHT, y)), GRID, 1)
        yield Label(LEFT - 6, y + 4, number(value), 10, "end", MUTED)
    for trial in ticks(0, last):
        if trial == int(trial):
            yield Label(place(trial, low)[0], BOTTOM + 18, f"{trial:.0f}", 10, "middle", MUTED)
    for point in section.history:
        x, y = place(point.number, point.value)
        yield Box(x - DOT / 2, y - DOT / 2, DOT, DOT, COUNTED if point.counts else STOPPED)
    curve = [*best_so_far(section.history, maximize=maximize)]
    curve.append((last, curve[-1][1])) if curve else None
    steps = [
        place(*spot) for (at, value), (until, _) in pairwise(curve) for spot in ((at, value), (until, value))
    ]
    if steps:
        yield Polyline(tuple(steps), BEST, 2)
    yield from _legend(section)


def _legend(section: ReportSection) -> Iterator[Shape]:
    named = [(COUNTED, "trial"), (BEST, "best so far")]
    if any(not point.counts for point in section.history):
        named.insert(1, (STOPPED, "stopped early"))
    for at, (color, text) in enumerate(named):
        x = LEFT + 130 * at
        yield Box(x, BOTTOM + 32, 10, 10, color)
        yield Label(x + 16, BOTTOM + 41, text, 11)
