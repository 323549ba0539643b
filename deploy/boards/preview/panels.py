"""A panel of a board as HTML, from its JSON and the answers to its queries."""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from boards.answers import Answer, seconds
from boards.expansion import View
from boards.preview import charts
from boards.preview.charts import Mark, Points
from boards.preview.values import by_threshold, colour, mapped, shown

Panel = Mapping[str, Any]
Size = tuple[float, float]


def draw(panel: Panel, answers: Sequence[Answer], size: Size, view: View, marks: Sequence[Mark]) -> str:
    """Returns the content of a panel in a size in pixels."""
    if panel["type"] != "text" and not any(answer.rows for answer in answers):
        return f'<p class="none">{escape(_defaults(panel).get("noValue", "No data"))}</p>'
    span = (view.from_s, view.to_s)
    match panel["type"]:
        case "timeseries":
            series = charts.coloured(_named(answers), _fixed(panel))
            return charts.xy_chart(series, size, _defaults(panel), span, marks)
        case "state-timeline":
            return charts.timeline(_named(answers), size, _defaults(panel), span)
        case "stat":
            return _numbers(panel, answers[0], size)
        case "bargauge":
            return charts.bar_rows(_gauges(panel, answers[0]), size, _defaults(panel))
        case "barchart":
            return _bars(panel, answers[0], size)
        case "xychart":
            return _steps(panel, answers, size)
        case "nodeGraph":
            nodes, edges = (
                [dict(zip(answer.columns, row, strict=True)) for row in answer.rows] for answer in answers
            )
            return charts.node_graph(nodes, edges, _fixed(panel), size)
        case "table":
            return _table(panel, answers[0], size)
        case _:
            return _text(panel["options"]["content"])


def _defaults(panel: Panel) -> Mapping[str, Any]:
    found: Mapping[str, Any] = panel["fieldConfig"]["defaults"]
    return found


def _fixed(panel: Panel) -> dict[str, str]:
    """Returns the colours of series that the panel fixes by their names."""
    found = {}
    for override in panel["fieldConfig"]["overrides"]:
        for each in override["properties"]:
            if each["id"] == "color":
                found[override["matcher"]["options"]] = each["value"]["fixedColor"]
    return found


def _named(answers: Sequence[Answer]) -> dict[str, Points]:
    """Returns the points of each series of time series, by name."""
    found: dict[str, list[tuple[float, float]]] = {}
    for answer in answers:
        place = float if answer.columns[0] == "step" else seconds
        for at, name, value in answer.rows:
            if value is not None:
                found.setdefault(str(name), []).append((place(at), float(value)))
    return dict(found)


def _numbers(panel: Panel, answer: Answer, size: Size) -> str:
    """Returns one number, or several with their names."""
    config = _defaults(panel)
    if answer.target.is_sql:
        values = list(zip(answer.columns, answer.rows[0], strict=True))
    else:
        values = [(name, value) for _, name, value in answer.rows]
    cells = []
    for name, value in values:
        number = None if value is None else float(value)
        text = (
            mapped(value, config.get("mappings", ()))[0]
            or shown(value, config.get("unit"))
            or config["noValue"]
        )
        pixels = 30 if len(values) == 1 else 17
        label = f"<small>{escape(name)}</small><br>" if len(values) > 1 else ""
        style = f"color:{by_threshold(number, config)};font-size:{pixels}px"
        cells.append(f'<div class="number">{label}<b style="{style}">{escape(text)}</b></div>')
    return f'<div class="numbers" style="height:{size[1]:.0f}px">{"".join(cells)}</div>'


def _gauges(panel: Panel, answer: Answer) -> list[tuple[str, list[tuple[str, float]]]]:
    config = _defaults(panel)
    return [
        (str(row[0]), [(by_threshold(float(row[1] or 0), config), float(row[1] or 0))]) for row in answer.rows
    ]


def _bars(panel: Panel, answer: Answer, size: Size) -> str:
    fixed = _fixed(panel)
    series = charts.coloured(dict.fromkeys(answer.columns[1:], ()), fixed)
    rows = [
        (str(row[0]), [(one.colour, float(value or 0)) for one, value in zip(series, row[1:], strict=True)])
        for row in answer.rows
    ]
    names = charts.legend(series) if len(series) > 1 else ""
    return (
        charts.bar_rows(rows, (size[0], size[1] - (charts.LEGEND_PX if names else 0)), _defaults(panel))
        + names
    )


def _steps(panel: Panel, answers: Sequence[Answer], size: Size) -> str:
    """Returns lines over steps, or points with the names of the axes that a second query has."""
    answer = answers[0]
    if "metric" in answer.columns:
        return charts.xy_chart(charts.coloured(_named(answers), {}), size, _defaults(panel), None)
    x, y = answers[1].rows[0] if len(answers) > 1 and answers[1].rows else answer.columns
    points = [(float(row[0]), float(row[1])) for row in answer.rows]
    drawn = charts.xy_chart(
        charts.coloured({str(y): points}, {}), (size[0], size[1] - 16), _defaults(panel), None
    )
    return f'{drawn}<div class="axis">right: {escape(str(x))}, up: {escape(str(y))}</div>'


def _table(panel: Panel, answer: Answer, size: Size) -> str:
    columns = {
        override["matcher"]["options"]: {each["id"]: each["value"] for each in override["properties"]}
        for override in panel["fieldConfig"]["overrides"]
    }
    visible = [
        (at, name, columns.get(name, {}))
        for at, name in enumerate(answer.columns)
        if not columns.get(name, {}).get("custom.hidden")
    ]
    head = "".join(_head(name, config) for _, name, config in visible)
    lines, statuses = max(1, int((size[1] - 30) / 24)), _defaults(panel).get("mappings", ())
    body = "".join(
        "<tr>" + "".join(_cell(row[at], config, statuses) for at, _, config in visible) + "</tr>"
        for row in answer.rows[:lines]
    )
    return f'<table style="width:{size[0]:.0f}px"><tr>{head}</tr>{body}</table>'


def _head(name: str, config: Mapping[str, Any]) -> str:
    width = f"{config['custom.width']}px" if "custom.width" in config else "auto"
    return f'<th style="width:{width}">{escape(config.get("displayName", name))}</th>'


def _cell(value: Any, config: Mapping[str, Any], statuses: Sequence[Mapping[str, Any]]) -> str:
    _, found = mapped(value, statuses)
    coloured = found and config.get("custom.displayMode") == "color-text"
    style = f' style="color:{found};font-weight:bold"' if coloured else ""
    body = escape(shown(value, config.get("unit")))
    return f"<td{style}>{f'<u>{body}</u>' if 'links' in config else body}</td>"


def _text(content: str) -> str:
    lines = "".join(f"<li>{escape(line.removeprefix('- '))}</li>" for line in content.splitlines())
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", lines)
    marked = re.sub(r"[*]([^*]+)[*]", r"<em>\1</em>", code)
    return f"<ul>{marked}</ul>"


def annotation_marks(answers: Sequence[Answer], colours: Mapping[str, str], view: View) -> list[Mark]:
    """Returns the annotations of a board: of each row its time."""
    found = []
    for answer in answers:
        name = answer.target.title.removeprefix("annotation ")
        for row in answer.rows:
            at = seconds(row[0])
            if view.from_s <= at <= view.to_s:
                found.append(Mark(at, colour(colours[name])))
    return found[:100]
