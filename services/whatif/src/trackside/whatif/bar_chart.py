"""Draws what-if: what each scenario saves and loses, and how its best value grows with time."""

from collections.abc import Iterator, Sequence
from html import escape

from trackside.whatif.canvas import Box, Label, Shape, svg
from trackside.whatif.canvas import png as drawn
from trackside.whatif.compare import Comparison, Row
from trackside.whatif.curve_chart import (
    COLORS,
    GREY,
    MUTED,
    curves,
    duration,
    height_of,
    shortened,
    title_of,
)

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


def png(found: Comparison) -> bytes:
    """Draws a comparison as PNG; raises MissingMatplotlibError."""
    shapes, height = _shapes(found)
    return drawn(WIDTH, height, shapes)


def page(found: Comparison) -> str:
    """Writes a comparison as one HTML file that loads nothing and in which nothing runs."""
    shapes, height = _shapes(found)
    title = f"What if: {found.recording.stream_id}"
    picture = svg(WIDTH, height, shapes, f"{title}; the numbers are in the table below")
    said = "\n".join(f"<li>{escape(line)}</li>" for line in found.assumptions)
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f'<div class="wide">{picture}</div>',
            f'<h2>In numbers</h2><div class="wide">{_table(found)}</div>',
            f"<h2>Assumed</h2><ul>{said}</ul></body></html>",
            "",
        ]
    )


def _table(found: Comparison) -> str:
    rows = ["<table><tr>" + "".join(f"<th>{name}</th>" for name in _HEAD) + "</tr>"]
    for at, row in enumerate(found.rows):
        cells = (
            row.outcome.scenario.name,
            row.mode if at else "",
            duration(row.outcome.makespan_ms / 1000),
            f"{row.makespan_saved:.0%}" if at else "",
            duration(row.outcome.device_ms / 1000),
            f"{row.device_saved:.0%}" if at else "",
            str(row.stops),
            _value(row),
            "" if row.lost is None or not at else f"{row.lost:.3g}",
            "" if row.rank is None else str(row.rank),
        )
        rows.append("<tr>" + "".join(f"<td>{_breakable(cell)}</td>" for cell in cells) + "</tr>")
    return "\n".join([*rows, "</table>"])


def _breakable(text: str) -> str:
    return escape(text).replace(",", ",<wbr>")


def _shapes(found: Comparison) -> tuple[list[Shape], float]:
    bars_end = _TOP + _ROW * len(found.rows)
    shapes = [*_heading(found), *_bars(found), *curves(found, bars_end + 50, WIDTH)]
    return shapes, bars_end + 50 + height_of(found)


def _heading(found: Comparison) -> Iterator[Shape]:
    recording = found.recording
    yield Label(20, 30, f"What if: {recording.stream_id}", 17, bold=True)
    places = f"{recording.places} device{'s' if recording.places != 1 else ''}"
    text = f"{len(recording.traces)} trials, {recording.concurrency} at once on {places}"
    yield Label(20, 48, f"{text}; in brackets: against the record, in the same mode", 11, color=MUTED)
    left = _NAMES + 20
    yield Label(left, _TOP - 8, "device time", 11, color=MUTED)
    yield Label(left + _BAR + 20, _TOP - 8, "makespan", 11, color=MUTED)
    yield Label(left + 2 * _BAR + 40, _TOP - 8, "trials stopped", 11, color=MUTED)
    yield Label(WIDTH - 20, _TOP - 8, "best value left", 11, "end", MUTED)


def _bars(found: Comparison) -> Iterator[Shape]:
    most_device = max(row.outcome.device_ms for row in found.rows) or 1
    most_span = max(row.outcome.makespan_ms for row in found.rows) or 1
    for at, row in enumerate(found.rows):
        y, outcome, left = _TOP + at * _ROW, row.outcome, _NAMES + 20
        lines = _lines(title_of(row, at))
        for number, line in enumerate(lines):
            size = 11 if len(lines) < 3 else 10
            yield Label(20, y + 18 + (number - (len(lines) - 1) / 2) * (size + 1.5), line, size)
        color = _color(found.rows, row)
        yield from _bar(left, y, outcome.device_ms, most_device, row.device_saved, color)
        yield from _bar(left + _BAR + 20, y, outcome.makespan_ms, most_span, row.makespan_saved, color)
        yield Label(left + 2 * _BAR + 40, y + 18, str(row.stops), 11.5)
        ink = RED if row.best_killed or row.lost else "#222222"
        worse = f" ({row.lost:.3g} worse)" if row.lost else ""
        up = 5 if row.best_killed else 0
        yield Label(WIDTH - 20, y + 18 - up, _value(row) + worse, 11.5, "end", ink)
        if row.best_killed:
            yield Label(WIDTH - 20, y + 27, "stops the best trial", 10, "end", RED)


def _value(row: Row) -> str:
    return "none" if row.best is None or row.best.value is None else f"{row.best.value:.5g}"


def _bar(x: float, y: float, ms: int, most: int, saved: float, color: str) -> Iterator[Shape]:
    width = _BAR - 80
    yield Box(x, y + 5, width, 18, LIGHT)
    yield Box(x, y + 5, width * ms / most, 18, color)
    text = duration(ms / 1000) + (f" ({-saved:+.0%})" if round(saved, 2) else "")
    yield Label(x + width + 5, y + 18, text, 10.5)


def _color(rows: Sequence[Row], row: Row) -> str:
    """Gives the colour of a scenario, paler where freed slots are not used: that has no curve."""
    names = list(dict.fromkeys(other.outcome.scenario.name for other in rows))
    at = names.index(row.outcome.scenario.name)
    color = COLORS[at] if at < len(COLORS) else GREY
    return color if row.outcome.scenario.freed else _paler(color)


def _paler(color: str) -> str:
    parts = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{(part + 255) // 2:02x}" for part in parts)


def _lines(title: str) -> list[str]:
    """Breaks a long title behind commas and blanks; what three lines can't hold is left out, but its mode."""
    lines, rest = list[str](), title
    while len(rest) > NAME_LETTERS and len(lines) < 2:
        head = rest[:NAME_LETTERS]
        at = max(head.rfind(" "), head.rfind(",")) + 1 or NAME_LETTERS
        lines.append(rest[:at].rstrip())
        rest = rest[at:].lstrip()
    return [*lines, shortened(rest, NAME_LETTERS)]
