"""Draws a what-if: what each scenario saves and loses, and its best value over time."""

from collections.abc import Iterator, Sequence
from html import escape

from trackside.whatif.charts.canvas import Box, Label, Shape, svg
from trackside.whatif.charts.canvas import png as render_png
from trackside.whatif.charts.curve_chart import (
    COLORS,
    GREY,
    MUTED,
    curves,
    duration,
    height_of,
    shortened,
    title_of,
)
from trackside.whatif.compare import Comparison, ScenarioResult

WIDTH = 960
NAME_LETTERS = 36
LIGHT, RED = "#e4e4e4", "#b3261e"
_NAMES, _BAR, _ROW = 250.0, 205.0, 34.0
_TOP = 92.0
_HEAD = (
    *("scenario", "mode", "makespan", "saved", "device time", "saved"),
    *("trials stopped", "best value", "lost", "rank"),
)
_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;color:#222;background:#fff;margin:2rem auto;max-width:64rem;"
    "padding:0 1rem}.wide{overflow-x:auto}svg{display:block;width:100%;min-width:46rem;height:auto}"
    "table{border-collapse:collapse;white-space:nowrap}td,th{padding:.2rem .5rem;text-align:right;"
    "border-bottom:1px solid #e4e4e4}td:first-child,th:first-child{text-align:left}"
    "td:first-child{white-space:normal;min-width:13rem;overflow-wrap:break-word}h2{font-size:1.1rem}"
)


def png(comparison: Comparison) -> bytes:
    """Returns a comparison as PNG; raises MissingMatplotlibError."""
    shapes, height = _shapes(comparison)
    return render_png(WIDTH, height, shapes)


def page(comparison: Comparison) -> str:
    """Returns a comparison as one HTML file without scripts and external resources."""
    shapes, height = _shapes(comparison)
    title = f"What if: {comparison.recording.stream_id}"
    picture = svg(WIDTH, height, shapes, f"{title}; the numbers are in the table below")
    assumptions = "\n".join(f"<li>{escape(line)}</li>" for line in comparison.assumptions)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f'<div class="wide">{picture}</div>',
            f'<h2>In numbers</h2><div class="wide">{_table(comparison)}</div>',
            f"<h2>Assumed</h2><ul>{assumptions}</ul></body></html>",
            "",
        ]
    )


def _table(comparison: Comparison) -> str:
    rows = ["<table><tr>" + "".join(f"<th>{name}</th>" for name in _HEAD) + "</tr>"]
    for index, result in enumerate(comparison.results):
        cells = (
            result.search.scenario.name,
            result.mode if index else "",
            duration(result.search.makespan_ms / 1000),
            f"{result.makespan_saved:.0%}" if index else "",
            duration(result.search.device_ms / 1000),
            f"{result.device_saved:.0%}" if index else "",
            str(result.stops),
            _value(result),
            "" if result.value_lost is None or not index else f"{result.value_lost:.3g}",
            "" if result.rank_of_best is None else str(result.rank_of_best),
        )
        rows.append("<tr>" + "".join(f"<td>{_breakable(cell)}</td>" for cell in cells) + "</tr>")
    return "\n".join([*rows, "</table>"])


def _breakable(text: str) -> str:
    return escape(text).replace(",", ",<wbr>")


def _shapes(comparison: Comparison) -> tuple[list[Shape], float]:
    bars_end = _TOP + _ROW * len(comparison.results)
    shapes = [*_heading(comparison), *_bars(comparison), *curves(comparison, bars_end + 50, WIDTH)]
    return shapes, bars_end + 50 + height_of(comparison)


def _heading(comparison: Comparison) -> Iterator[Shape]:
    recording = comparison.recording
    yield Label(20, 30, f"What if: {recording.stream_id}", 17, bold=True)
    devices = f"{recording.devices} device{'s' if recording.devices != 1 else ''}"
    text = f"{len(recording.traces)} trials, {recording.concurrency} at once on {devices}"
    yield Label(
        20, 48, f"{text}; in brackets: compared with the recording, in the same mode", 11, color=MUTED
    )
    left = _NAMES + 20
    yield Label(left, _TOP - 8, "device time", 11, color=MUTED)
    yield Label(left + _BAR + 20, _TOP - 8, "makespan", 11, color=MUTED)
    yield Label(left + 2 * _BAR + 40, _TOP - 8, "trials stopped", 11, color=MUTED)
    yield Label(WIDTH - 20, _TOP - 8, "best value left", 11, "end", MUTED)


def _bars(comparison: Comparison) -> Iterator[Shape]:
    most_device = max(result.search.device_ms for result in comparison.results) or 1
    most_span = max(result.search.makespan_ms for result in comparison.results) or 1
    for index, result in enumerate(comparison.results):
        y, search, left = _TOP + index * _ROW, result.search, _NAMES + 20
        lines = _lines(title_of(result, index))
        for number, line in enumerate(lines):
            size = 11 if len(lines) < 3 else 10
            yield Label(20, y + 18 + (number - (len(lines) - 1) / 2) * (size + 1.5), line, size)
        color = _color(comparison.results, result)
        yield from _bar(left, y, search.device_ms, most_device, result.device_saved, color)
        yield from _bar(left + _BAR + 20, y, search.makespan_ms, most_span, result.makespan_saved, color)
        yield Label(left + 2 * _BAR + 40, y + 18, str(result.stops), 11.5)
        ink = RED if result.best_trial_stopped or result.value_lost else "#222222"
        worse = f" ({result.value_lost:.3g} worse)" if result.value_lost else ""
        up = 5 if result.best_trial_stopped else 0
        yield Label(WIDTH - 20, y + 18 - up, _value(result) + worse, 11.5, "end", ink)
        if result.best_trial_stopped:
            yield Label(WIDTH - 20, y + 27, "stops the best trial", 10, "end", RED)


def _value(result: ScenarioResult) -> str:
    return "none" if result.best is None or result.best.value is None else f"{result.best.value:.5g}"


def _bar(x: float, y: float, ms: int, most: int, saved: float, color: str) -> Iterator[Shape]:
    width = _BAR - 80
    yield Box(x, y + 5, width, 18, LIGHT)
    yield Box(x, y + 5, width * ms / most, 18, color)
    text = duration(ms / 1000) + (f" ({-saved:+.0%})" if round(saved, 2) else "")
    yield Label(x + width + 5, y + 18, text, 10.5)


def _color(results: Sequence[ScenarioResult], result: ScenarioResult) -> str:
    """Returns the colour of a scenario, paler if frozen: those have no curve."""
    names = list(dict.fromkeys(other.search.scenario.name for other in results))
    index = names.index(result.search.scenario.name)
    color = COLORS[index] if index < len(COLORS) else GREY
    return color if result.search.scenario.freed else _paler(color)


def _paler(color: str) -> str:
    parts = (int(color[index : index + 2], 16) for index in (1, 3, 5))
    return "#" + "".join(f"{(part + 255) // 2:02x}" for part in parts)


def _lines(title: str) -> list[str]:
    """Breaks a long title after commas and blanks into three lines, shortened if need be, with its mode."""
    lines, rest = list[str](), title
    while len(rest) > NAME_LETTERS and len(lines) < 2:
        head = rest[:NAME_LETTERS]
        index = max(head.rfind(" "), head.rfind(",")) + 1 or NAME_LETTERS
        lines.append(rest[:index].rstrip())
        rest = rest[index:].lstrip()
    return [*lines, shortened(rest, NAME_LETTERS)]
