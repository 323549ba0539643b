"""Draws which model was live when, as recorded and in each scenario of an incremental job."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Literal

from trackside.whatif.charts.canvas import Box, Label, Polyline, Shape, svg
from trackside.whatif.charts.canvas import png as render_png
from trackside.whatif.charts.curve_chart import COLORS, GREY, MUTED, shortened
from trackside.whatif.job_comparison import JobComparison
from trackside.whatif.job_simulation import SimulatedJob, Verdict

WIDTH = 960.0
MOST_ROWS = 40
_LEFT, _RIGHT, _TOP, _ROW, _BAND = 230.0, 940.0, 80.0, 40.0, 18.0
_UNKNOWN = "#dddddd"
_MARKS: dict[Verdict, str] = {
    "deploy": "#009e73",
    "keep": "#222222",
    "failed": "#b3261e",
    "open": "#ffffff",
    "unknown": "#b0b0b0",
}
_LETTER_PX = 6.5


def live_models_picture(comparison: JobComparison, form: Literal["svg", "png"]) -> bytes:
    """Returns the picture as SVG or PNG; for a PNG, raises MissingMatplotlibError if that is missing."""
    rows = comparison.results[:MOST_ROWS]
    height = _TOP + _ROW * len(rows) + 60
    shapes = list(_shapes(comparison, rows, height))
    if form == "png":
        return render_png(WIDTH, height, shapes)
    size = f'xmlns="http://www.w3.org/2000/svg" width="{WIDTH:g}" height="{height:g}" '
    title = f"What if: live models of {comparison.recording.stream_id}"
    return svg(WIDTH, height, shapes, title).replace("<svg ", f"<svg {size}", 1).encode()


def _shapes(comparison: JobComparison, rows: tuple[SimulatedJob, ...], height: float) -> Iterator[Shape]:
    recording = comparison.recording
    begin_ms, end_ms = recording.created_ms, max(recording.last_ms, recording.created_ms + 1)
    yield Label(20, 30, f"What if: {recording.stream_id}", 17, bold=True)
    note = "the live model, light grey where it is unknown; a mark is a round:"
    hidden = len(comparison.results) - len(rows)
    yield Label(20, 52, note + (f" the first {len(rows)} scenarios;" if hidden else ""), 11, color=MUTED)
    x = 430.0
    for verdict, color in _MARKS.items():
        if verdict != "open":
            yield Box(x, 43, 4, 11, color)
            yield Label(x + 8, 52, {"deploy": "deployed", "keep": "kept"}.get(verdict, verdict), 11)
            x += 95
    for index, result in enumerate(rows):
        y = _TOP + _ROW * index + 13
        for line, text in enumerate(result.scenario.name.split(", ")[:3]):
            yield Label(20, y + 12 * line, shortened(text, 32), 11)
        yield from _band(comparison, result, _TOP + _ROW * index, (begin_ms, end_ms))
    yield from _axis(begin_ms, end_ms, height - 40)


def _x(ms: int, span: tuple[int, int]) -> float:
    begin_ms, end_ms = span
    part = (min(max(ms, begin_ms), end_ms) - begin_ms) / (end_ms - begin_ms)
    return _LEFT + (_RIGHT - _LEFT) * part


def _band(
    comparison: JobComparison, result: SimulatedJob, y: float, span: tuple[int, int]
) -> Iterator[Shape]:
    names = list(comparison.recording.names)
    for (ms, models), (until_ms, _) in pairwise([*result.live, (span[1], ())]):
        left, right = _x(ms, span), _x(until_ms, span)
        is_known = len(models) == 1 and models[0] in names
        color = COLORS[names.index(models[0]) % len(COLORS)] if is_known else _UNKNOWN
        yield Box(left, y, max(1.0, right - left), _BAND, color)
        text = comparison.name_of(models[0]).rpartition("@")[2] if is_known else "?"
        if right - left > _LETTER_PX * (len(text) + 1):
            yield Label(left + 4, y + 13, text, 10.5, color="#ffffff" if is_known else MUTED)
    for each in result.rounds:
        yield Box(_x(each.fired_ms, span) - 1.5, y + _BAND + 2, 3, 9, _MARKS[each.verdict])


def _axis(begin_ms: int, end_ms: int, y: float) -> Iterator[Shape]:
    yield Polyline(((_LEFT, y), (_RIGHT, y)), GREY, 1)
    for at, anchor in ((begin_ms, "start"), (end_ms, "end")):
        text = f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        place = _LEFT if anchor == "start" else _RIGHT
        yield Label(place, y + 16, text, 10, "start" if anchor == "start" else "end", MUTED)
