"""Draws what-if: what each scenario saves and loses, and how its best value grows with time."""

import math
from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from trackside.contracts.searches import TrialStatus
from trackside.replay.whatif_canvas import Box, Label, Line, Shape, svg
from trackside.replay.whatif_canvas import png as drawn
from trackside.replay.whatif_compare import Comparison, Row

WIDTH = 960
CURVES = 8
NAME_LETTERS = 36
COLORS = ("#222222", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b")
"""Okabe and Ito's, which those who see fewer colours can tell apart."""
GREY, LIGHT, RED = "#9a9a9a", "#e4e4e4", "#b3261e"
_NAMES, _BAR, _ROW = 250.0, 205.0, 34.0
_TOP = 78.0
_CURVE_HEIGHT = 250.0


def png(found: Comparison) -> bytes:
    """Draws a comparison as PNG; raises MissingMatplotlibError."""
    shapes, height = _shapes(found)
    return drawn(WIDTH, height, shapes)


def page(found: Comparison) -> str:
    """Writes a comparison as one HTML file that loads nothing and in which nothing runs."""
    shapes, height = _shapes(found)
    title = escape(f"What if: {found.recording.stream_id}")
    said = "\n".join(f"<li>{escape(line)}</li>" for line in found.assumptions)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{title}</title><style>body{{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;"
            "max-width:64rem;padding:0 1rem}svg{width:100%;height:auto}</style></head><body>",
            svg(WIDTH, height, shapes),
            f"<h2>Assumed</h2><ul>{said}</ul></body></html>",
            "",
        ]
    )


def _shapes(found: Comparison) -> tuple[list[Shape], float]:
    rows = found.rows
    bars_end = _TOP + _ROW * len(rows)
    shapes: list[Shape] = [*_heading(found), *_bars(found)]
    shapes += _curves(found, bars_end + 56)
    legend_rows = math.ceil(len(_with_curve(rows)) / 2)
    return shapes, bars_end + 56 + _CURVE_HEIGHT + 62 + 18 * legend_rows


def _heading(found: Comparison) -> Iterator[Shape]:
    recording = found.recording
    yield Label(20, 30, f"What if: {recording.stream_id}", 17, bold=True)
    text = f"{len(recording.traces)} trials, {recording.concurrency} at once on {recording.places} devices"
    yield Label(20, 48, text, 11, color="#666666")
    left = _NAMES + 20
    yield Label(left, _TOP - 8, "device time", 11, color="#666666")
    yield Label(left + _BAR + 20, _TOP - 8, "makespan", 11, color="#666666")
    yield Label(left + 2 * _BAR + 40, _TOP - 8, "stopped", 11, color="#666666")
    yield Label(WIDTH - 20, _TOP - 8, "best value left", 11, "end", "#666666")


def _bars(found: Comparison) -> Iterator[Shape]:
    most_device = max(row.outcome.device_ms for row in found.rows) or 1
    most_span = max(row.outcome.makespan_ms for row in found.rows) or 1
    for at, row in enumerate(found.rows):
        y, outcome, left = _TOP + at * _ROW, row.outcome, _NAMES + 20
        color = _color(found.rows, row)
        lines = _lines(_title(row, at, 66))
        for number, line in enumerate(lines):
            yield Label(
                20, y + (18 if len(lines) == 1 else 11 + 13 * number), line, 11.5 if len(lines) == 1 else 10
            )
        yield from _bar(left, y, outcome.device_ms, most_device, row.device_saved, color)
        yield from _bar(left + _BAR + 20, y, outcome.makespan_ms, most_span, row.makespan_saved, color)
        yield Label(left + 2 * _BAR + 40, y + 18, str(row.stops), 11.5)
        value = "none" if row.best is None or row.best.value is None else f"{row.best.value:.5g}"
        lost = "" if not row.lost else f"{row.lost:.3g} worse: "
        ink = RED if row.best_killed or row.lost else "#222222"
        yield Label(WIDTH - 20, y + 18, lost + value, 11.5, "end", ink, bold=row.best_killed)


def _bar(x: float, y: float, ms: int, most: int, saved: float, color: str) -> Iterator[Shape]:
    width = _BAR - 80
    yield Box(x, y + 5, width, 18, LIGHT)
    yield Box(x, y + 5, width * ms / most, 18, color)
    text = _seconds(ms / 1000) + (f" ({-saved:+.0%})" if round(saved, 2) else "")
    yield Label(x + width + 5, y + 18, text, 10.5)


def _curves(found: Comparison, top: float) -> Iterator[Shape]:
    rows = _with_curve(found.rows)
    curves = [_best_so_far(row, found.recording.direction) for row in rows]
    values = [value for curve in curves for _, value in curve]
    yield Label(20, top, "best value so far, by the clock of the search", 13, bold=True)
    if not values:
        yield Label(20, top + 24, "no trial came to a value", 11, color="#666666")
        return
    left, right, upper = 80.0, WIDTH - 30.0, top + 16
    lower = upper + _CURVE_HEIGHT
    span = max(row.outcome.makespan_ms for row in rows) or 1
    low, high = min(values), max(values)
    pad = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
    low, high = low - pad, high + pad

    def place(ms: float, value: float) -> tuple[float, float]:
        return left + (right - left) * ms / span, lower - (lower - upper) * (value - low) / (high - low)

    for part in range(5):
        value, ms = low + (high - low) * part / 4, span * part / 4
        y, x = place(0, value)[1], place(ms, low)[0]
        yield Line(((left, y), (right, y)), LIGHT, 1)
        yield Label(left - 6, y + 4, f"{value:.4g}", 10, "end", "#666666")
        yield Label(x, lower + 16, _seconds(ms / 1000), 10, "middle", "#666666")
    for at, (row, curve) in enumerate(zip(rows, curves, strict=True)):
        ends = [*curve, (row.outcome.makespan_ms, curve[-1][1])] if curve else []
        points = []
        for (ms, value), (until, _) in pairwise(ends):
            points += [place(ms, value), place(until, value)]
        if points:
            yield Line(tuple(points), _color(found.rows, row), 2)
        x, y = left + (right - left) / 2 * (at % 2), lower + 42 + 18 * (at // 2)
        yield Line(((x, y - 4), (x + 24, y - 4)), _color(found.rows, row), 2)
        yield Label(x + 30, y, _title(row, at, 50), 11)


def _with_curve(rows: Sequence[Row]) -> list[Row]:
    """Gives the rows that are drawn by the clock: those in which freed slots are used, the first of them."""
    return [row for row in rows if row.outcome.scenario.freed][:CURVES]


def _color(rows: Sequence[Row], row: Row) -> str:
    """Gives the colour of a scenario, the same whether freed slots are used or not."""
    names = list(dict.fromkeys(other.outcome.scenario.name for other in rows))
    at = names.index(row.outcome.scenario.name)
    return COLORS[at] if at < len(COLORS) else GREY


def _best_so_far(row: Row, direction: str) -> list[tuple[int, float]]:
    """Gives (ms, value) wherever the best value of a trial that succeeded gets better."""
    curve: list[tuple[int, float]] = []
    for fate in sorted(row.outcome.fates, key=lambda fate: fate.ended_ms):
        value = fate.value
        good = fate.trace.status is TrialStatus.SUCCEEDED and not fate.stopped
        if not good or value is None or not math.isfinite(value):
            continue
        if not curve or (value > curve[-1][1] if direction == "maximize" else value < curve[-1][1]):
            curve.append((fate.ended_ms, value))
    return curve


def _title(row: Row, at: int, longest: int) -> str:
    name = _cut(row.outcome.scenario.name, longest)
    return name if at == 0 else f"{name} ({row.mode})"


def _lines(title: str) -> list[str]:
    """Breaks a long title once, behind the comma that leaves most to the first line."""
    if len(title) <= NAME_LETTERS:
        return [title]
    at = title.rfind(", ", 0, NAME_LETTERS)
    return [title] if at < 0 else [title[: at + 1], title[at + 2 :]]


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _seconds(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
