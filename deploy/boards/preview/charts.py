"""Graphs as SVG: lines, points and stacked areas over time or steps, bars, timelines, and graphs of nodes."""

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, NamedTuple

from boards.preview.values import PALETTE, by_threshold, colour, shown, ticks

Points = Sequence[tuple[float, float]]
LEFT, BOTTOM, TOP, RIGHT = 62, 18, 6, 8
LEGEND_PX, LEGEND_SERIES = 16, 16


class Series(NamedTuple):
    """A named line with its points and its colour."""

    name: str
    points: Points
    colour: str


class Mark(NamedTuple):
    """An annotation: when, and in which colour."""

    at: float
    colour: str


class Scale(NamedTuple):
    """From values to pixels, in both directions of a chart."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    width: float
    height: float

    def x(self, value: float) -> float:
        """Returns how far to the right a value is."""
        span = (self.high_x - self.low_x) or 1
        return LEFT + (value - self.low_x) / span * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Returns how far down a value is."""
        span = (self.high_y - self.low_y) or 1
        return self.height - BOTTOM - (value - self.low_y) / span * (self.height - BOTTOM - TOP)


def coloured(named: Mapping[str, Points], fixed: Mapping[str, str]) -> list[Series]:
    """Returns series with their colours: fixed ones by name, the others in turn from the palette."""
    return [
        Series(name, points, colour(fixed[name]) if name in fixed else PALETTE[number % len(PALETTE)])
        for number, (name, points) in enumerate(named.items())
    ]


def xy_chart(
    series: Sequence[Series],
    size: tuple[float, float],
    config: Mapping[str, Any],
    span: tuple[float, float] | None,
    marks: Sequence[Mark] = (),
) -> str:
    """Returns a chart of lines, points or stacked areas; `span` is the range of time, None for steps."""
    width, height = size[0], size[1] - LEGEND_PX * _legend_lines(series, size[0])
    custom = config.get("custom", {})
    stacked = custom.get("stacking", {}).get("mode") == "normal"
    drawn = _stack(series) if stacked else [(one, None) for one in series]
    values = [y for one, _ in drawn for _, y in one.points if math.isfinite(y)]
    xs = [x for one in series for x, _ in one.points]
    low_x, high_x = span or (min(xs, default=0), max(xs, default=1))
    high_x = high_x if high_x > low_x else low_x + 1
    low, high = _limits(values, config)
    scale = Scale(low_x, high_x, low, high, width, height)
    parts = [_axes(scale, config.get("unit"), span is not None)]
    parts += [
        f'<line x1="{scale.x(mark.at):.1f}" x2="{scale.x(mark.at):.1f}" y1="{TOP}" y2="{height - BOTTOM}" '
        f'stroke="{colour(mark.colour)}" stroke-dasharray="3,3" opacity="0.7"/>'
        for mark in marks
        if low_x <= mark.at <= high_x
    ]
    for one, below in reversed(drawn):
        parts.append(_line(one, below, scale, custom))
    body = f'<svg width="{width:.0f}" height="{height:.0f}">{"".join(parts)}</svg>'
    return body + legend(series)


def _legend_lines(series: Sequence[Series], width: float) -> int:
    """Returns how many lines the names of series take, as far as there is room for them."""
    needed = sum(30 + 6 * len(one.name) for one in series[:LEGEND_SERIES])
    return min(4, 1 + int(needed / width))


def _limits(values: Sequence[float], config: Mapping[str, Any]) -> tuple[float, float]:
    low = config.get("min", min(values, default=0))
    high = config.get("max", max(values, default=1))
    if high <= low:
        high = low + (abs(low) or 1)
    margin = 0.05 * (high - low)
    return (low if "min" in config else low - margin), (high if "max" in config else high + margin)


def _stack(series: Sequence[Series]) -> list[tuple[Series, Points | None]]:
    """Returns series on top of each other, each with the line below it."""
    times = sorted({x for one in series for x, _ in one.points})
    below = dict.fromkeys(times, 0.0)
    found: list[tuple[Series, Points | None]] = []
    for one in series:
        own = dict(one.points)
        top = {x: below[x] + own.get(x, 0.0) for x in times}
        found.append((one._replace(points=list(top.items())), list(below.items())))
        below = top
    return found


def _line(one: Series, below: Points | None, scale: Scale, custom: Mapping[str, Any]) -> str:
    at = [(scale.x(x), scale.y(y)) for x, y in one.points if math.isfinite(y)]
    if not at:
        return ""
    if custom.get("drawStyle") == "bars":
        width = max(1.5, (scale.width - LEFT) / max(len(at), 60) * 0.7)
        under = [scale.y(y) for _, y in below or ()] or [scale.y(max(0, scale.low_y))] * len(at)
        return "".join(
            f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{max(0, base - y):.1f}" '
            f'fill="{one.colour}"/>'
            for (x, y), base in zip(at, under, strict=False)
        )
    dots = custom.get("drawStyle") == "points" or custom.get("show") == "points"
    if dots or len(at) == 1:
        return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{one.colour}"/>' for x, y in at)
    if custom.get("lineInterpolation") == "stepAfter":
        at = [
            corner
            for (x, y), (later, _) in zip(at, [*at[1:], at[-1]], strict=True)
            for corner in ((x, y), (later, y))
        ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
    area = ""
    if below is not None:
        back = " ".join(f"{scale.x(x):.1f},{scale.y(y):.1f}" for x, y in reversed(below))
        area = f'<polygon points="{path} {back}" fill="{one.colour}" opacity="0.3"/>'
    return f'{area}<polyline points="{path}" fill="none" stroke="{one.colour}" stroke-width="1.6"/>'


def _axes(scale: Scale, unit: str | None, is_time: bool) -> str:
    parts = []
    for value in ticks(scale.low_y, scale.high_y, 4, unit):
        y = scale.y(value)
        parts.append(
            f'<line x1="{LEFT}" x2="{scale.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e5e5e5"/>'
        )
        parts.append(
            f'<text x="{LEFT - 5}" y="{y + 4:.1f}" text-anchor="end">{escape(shown(value, unit))}</text>'
        )
    count = max(2, int(scale.width / 110))
    for number in range(count + 1):
        value = scale.low_x + (scale.high_x - scale.low_x) * number / count
        text = _moment(value, scale.high_x - scale.low_x) if is_time else shown(value, "short")
        anchor = "start" if number == 0 else "end" if number == count else "middle"
        parts.append(
            f'<text x="{scale.x(value):.1f}" y="{scale.height - 4}" text-anchor="{anchor}">{text}</text>'
        )
    return "".join(parts)


def _moment(at: float, span_s: float) -> str:
    form = "%H:%M:%S" if span_s < 1800 else "%H:%M" if span_s < 172_800 else "%m-%d"
    return datetime.fromtimestamp(at, UTC).strftime(form)


def legend(series: Sequence[Series]) -> str:
    """Returns the names of series with their colours."""
    names = "".join(
        f'<span><i style="background:{one.colour}"></i>{escape(one.name)}</span>'
        for one in series[:LEGEND_SERIES]
    )
    left = len(series) - LEGEND_SERIES
    more = f"<span>and {left} more</span>" if left > 0 else ""
    return f'<div class="legend">{names}{more}</div>'


def timeline(
    named: Mapping[str, Points],
    size: tuple[float, float],
    config: Mapping[str, Any],
    span: tuple[float, float],
) -> str:
    """Returns a row for each series, coloured over time by the thresholds."""
    width, height, left = size[0], size[1] - LEGEND_PX, 150
    row = min(40.0, (height - BOTTOM) / max(1, len(named)))
    scale = (width - left - RIGHT) / (span[1] - span[0])
    parts = []
    for number, (name, points) in enumerate(named.items()):
        parts.append(_text(left - 6, row * (number + 0.65), name, "end"))
        last = points[-1][0]
        later = [*(at for at, _ in points[1:]), last + (last - points[-2][0] if len(points) > 1 else 1)]
        parts += [
            _rect(
                left + (at - span[0]) * scale,
                row * number + 2,
                (end - at) * scale + 0.3,
                row - 4,
                by_threshold(value, config),
            )
            for (at, value), end in zip(points, later, strict=True)
        ]
    for number in range(7):
        at = span[0] + (span[1] - span[0]) * number / 6
        anchor = "start" if number == 0 else "end" if number == 6 else "middle"
        parts.append(_text(left + (at - span[0]) * scale, height - 4, _moment(at, span[1] - span[0]), anchor))
    return _svg((width, height), parts)


def bar_rows(
    rows: Sequence[tuple[str, Sequence[tuple[str, float]]]],
    size: tuple[float, float],
    config: Mapping[str, Any],
) -> str:
    """Returns a horizontal bar for each row, of parts with a colour and a value."""
    totals = [sum(value for _, value in parts) for _, parts in rows]
    most = config.get("max") or max(totals, default=1) or 1
    height = min(26.0, (size[1] - 4) / max(1, len(rows)))
    found = []
    for number, ((name, parts), total) in enumerate(zip(rows, totals, strict=True)):
        y, x = number * height, size[0] * 0.34
        found.append(_text(x - 6, y + height * 0.65, name[:44], "end"))
        for fill, value in parts:
            length = value / most * size[0] * 0.55
            found.append(_rect(x, y + 3, length, height - 6, fill))
            x += length
        found.append(_text(x + 5, y + height * 0.65, shown(total, config.get("unit"))))
    return _svg(size, found)


def node_graph(
    nodes: Sequence[Mapping[str, Any]],
    edges: Sequence[Mapping[str, Any]],
    arcs: Mapping[str, str],
    size: tuple[float, float],
) -> str:
    """Returns nodes from left to right by how many are before them, with lines between them."""
    place = _placed([node["id"] for node in nodes], edges, size)
    parts = []
    for edge in edges:
        (x, y), (end_x, end_y) = place[edge["source"]], place[edge["target"]]
        parts.append(
            f'<line x1="{x + 26:.0f}" y1="{y:.0f}" x2="{end_x - 26:.0f}" y2="{end_y:.0f}" stroke="#999"/>'
        )
    for node in nodes:
        x, y = place[node["id"]]
        fill = next((colour(arcs[name]) for name in arcs if node.get(name)), "#ccc")
        parts.append(
            f'<circle cx="{x:.0f}" cy="{y:.0f}" r="24" fill="white" stroke="{fill}" stroke-width="4"/>'
        )
        parts.append(_text(x, y + 4, str(node["mainstat"])[:10], "middle"))
        parts.append(_text(x, y + 42, str(node["title"]), "middle"))
    return _svg(size, parts)


def _placed(
    names: Sequence[str], edges: Sequence[Mapping[str, Any]], size: tuple[float, float]
) -> dict[str, tuple[float, float]]:
    depth = dict.fromkeys(names, 0)
    for _ in names:
        for edge in edges:
            depth[edge["target"]] = max(depth[edge["target"]], depth[edge["source"]] + 1)
    columns: dict[int, list[str]] = {}
    for name, level in depth.items():
        columns.setdefault(level, []).append(name)
    return {
        name: (size[0] * (level + 0.5) / len(columns), size[1] * (number + 0.5) / len(column))
        for level, column in columns.items()
        for number, name in enumerate(column)
    }


def _svg(size: tuple[float, float], parts: Sequence[str]) -> str:
    return f'<svg width="{size[0]:.0f}" height="{size[1]:.0f}">{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _rect(x: float, y: float, width: float, height: float, fill: str) -> str:
    size = f'width="{max(0.5, width):.1f}" height="{max(0, height):.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} fill="{fill}"/>'
