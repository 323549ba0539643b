"""Panels in the form that Grafana 9.4 to 12 read: graphs, numbers, bars, timelines, node graphs, and more."""

from collections.abc import Mapping, Sequence
from typing import Literal

from grafana_foundation_sdk.builders import dashboard, prometheus
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)

from boards.queries import POSTGRES, PROMETHEUS, PostgresQuery, Query
from boards.style import COUNT, STATUS_COLOURS, units_of_expression

Panel = dashboard.Panel
Steps = Sequence[tuple[float | None, str]]
"""Thresholds: from which value on, in which colour; the first one from None."""
_LETTERS = "ABCDEFGHIJ"
_PALETTE, _BY_THRESHOLDS = FieldColorModeId.PALETTE_CLASSIC, FieldColorModeId.THRESHOLDS
_NO_TOOLTIP_ORDER = {"mode": "single", "sort": "none"}


def _legend(*, shown: bool = True) -> dict[str, object]:
    return {"displayMode": "list", "placement": "bottom", "showLegend": shown, "calcs": []}


def panel(kind: str, title: str, description: str, queries: Sequence[Query]) -> Panel:
    """Returns a panel of a type of Grafana with its queries, which get the letters A, B, ... as names."""
    built = dashboard.Panel().type(kind).title(title).description(description)
    source = POSTGRES if isinstance(queries[0], PostgresQuery) else PROMETHEUS
    built.datasource(source)
    for letter, query in zip(_LETTERS, queries, strict=False):
        built.with_target(query.ref_id(letter))
    return built


def thresholds(steps: Steps) -> dashboard.ThresholdsConfig:
    """Returns thresholds in absolute values."""
    listed = [Threshold(value=value, color=colour) for value, colour in steps]
    return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(listed)


def status_mappings() -> list[ValueMapping]:
    """Returns the colour of each status, as mappings of values."""
    results = {
        status: ValueMappingResult(color=colour, index=number)
        for number, (status, colour) in enumerate(STATUS_COLOURS.items())
    }
    return [ValueMap(options=results)]


def colour_by_status(built: Panel, statuses: Sequence[str]) -> Panel:
    """Returns series that are named by a status the colour of that status."""
    return _coloured(built, {status: STATUS_COLOURS[status] for status in statuses})


def _coloured(built: Panel, colours: Mapping[str, str]) -> Panel:
    for name, colour in colours.items():
        fixed = {"mode": "fixed", "fixedColor": colour}
        built.override_by_name(name, [DynamicConfigValue(id_val="color", value=fixed)])
    return built


def unit_of(query: Query) -> str:
    """Returns the unit of PromQL over metrics of the registry; of all else it is a count."""
    units = units_of_expression(query.build().expr) if isinstance(query, prometheus.Dataquery) else ()
    return COUNT if COUNT in units or len(units) != 1 else next(iter(units))


def graph(
    title: str,
    description: str,
    *queries: Query,
    unit: str = "",
    style: Literal["line", "steps", "points", "bars", "area"] = "line",
    minimum: float | None = 0,
    maximum: float | None = None,
    steps: Steps = (),
    statuses: Sequence[str] = (),
    interval: str = "1s",
    none: str = "",
) -> Panel:
    """Returns a graph over time. Gaps between the times of several series are spanned.

    `bars` and `area` are stacked; `statuses` are series that are named by a status; `none` is shown where
    there are no series.
    """
    built = (
        panel("timeseries", title, description, queries).unit(unit or unit_of(queries[0])).interval(interval)
    )
    if none:
        built.no_value(none)
    built.custom(_graph_style(style, bool(steps)))
    built.options({"legend": _legend(), "tooltip": {"mode": "multi", "sort": "desc"}})
    built.color_scheme(dashboard.FieldColor().mode(_PALETTE))
    if minimum is not None:
        built.min(minimum)
    if maximum is not None:
        built.max(maximum)
    if steps:
        built.thresholds(thresholds(steps))
    return colour_by_status(built, statuses)


def _graph_style(style: str, shows_thresholds: bool) -> Mapping[str, object]:
    stacked = style in ("bars", "area")
    custom: dict[str, object] = {
        "drawStyle": {"bars": "bars", "points": "points"}.get(style, "line"),
        "lineInterpolation": "stepAfter" if style == "steps" else "linear",
        "lineWidth": 1 if stacked else 2,
        "fillOpacity": {"bars": 80, "area": 30}.get(style, 0),
        "showPoints": "always" if style == "points" else "auto",
        "pointSize": 5,
        "spanNulls": True,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }
    if shows_thresholds:
        custom["thresholdsStyle"] = {"mode": "dashed"}
    return custom


def number(
    title: str,
    description: str,
    query: Query,
    *,
    unit: str = "",
    steps: Steps = ((None, "text"),),
    sparkline: bool = False,
    words: Mapping[int, str] | None = None,
    none: str = "-",
) -> Panel:
    """Returns the newest value of each series as a number, or as one of `words`."""
    built = panel("stat", title, description, [query]).unit(unit or unit_of(query))
    built.no_value(none).thresholds(thresholds(steps))
    if words:
        built.mappings(
            [ValueMap(options={str(value): ValueMappingResult(text=word) for value, word in words.items()})]
        )
    reduce = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    return built.options(
        {
            "colorMode": "value",
            "graphMode": "area" if sparkline else "none",
            "justifyMode": "center",
            "orientation": "auto",
            "reduceOptions": reduce,
            "textMode": "auto",
        }
    )


def bars(
    title: str, description: str, query: Query, *, unit: str, steps: Steps, maximum: float | None = None
) -> Panel:
    """Returns a horizontal bar for each row or series, with its value."""
    built = panel("bargauge", title, description, [query]).unit(unit).min(0).thresholds(thresholds(steps))
    if maximum is not None:
        built.max(maximum)
    built.color_scheme(dashboard.FieldColor().mode(_BY_THRESHOLDS))
    return built.options(
        {
            "displayMode": "basic",
            "orientation": "horizontal",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": True},
            "showUnfilled": True,
            "valueMode": "color",
        }
    )


def histogram(
    title: str,
    description: str,
    query: Query,
    *,
    unit: str,
    statuses: Sequence[str] = (),
    stacked: bool = False,
    none: str = "",
    maximum: float | None = None,
) -> Panel:
    """Returns bars, one for each row: the first column is a text, the others are numbers.

    `statuses` are columns that are named by a status; `none` is shown where there are no rows.
    """
    built = panel("barchart", title, description, [query]).unit(unit).min(0)
    if maximum is not None:
        built.max(maximum)
    if none:
        built.no_value(none)
    built.custom({"fillOpacity": 80, "lineWidth": 1})
    built.color_scheme(dashboard.FieldColor().mode(_PALETTE))
    built.options(
        {
            "orientation": "horizontal",
            "showValue": "auto",
            "stacking": "normal" if stacked else "none",
            "groupWidth": 0.7,
            "barWidth": 0.9,
            "legend": _legend(shown=stacked),
            "tooltip": _NO_TOOLTIP_ORDER,
        }
    )
    return colour_by_status(built, statuses)


def timeline(title: str, description: str, query: Query, *, unit: str, steps: Steps) -> Panel:
    """Returns a row for each series, coloured over time by thresholds."""
    built = panel("state-timeline", title, description, [query]).unit(unit).min(0).interval("1s")
    built.thresholds(thresholds(steps)).custom({"fillOpacity": 80, "lineWidth": 0, "spanNulls": False})
    built.color_scheme(dashboard.FieldColor().mode(_BY_THRESHOLDS)).max_data_points(120)
    return built.options(
        {
            "mergeValues": True,
            "showValue": "never",
            "rowHeight": 0.9,
            "alignValue": "left",
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": _NO_TOOLTIP_ORDER,
        }
    )


def scatter(
    title: str,
    description: str,
    query: PostgresQuery,
    *,
    x: str,
    y: str,
    names: PostgresQuery,
    none: str,
) -> Panel:
    """Returns points: column `x` to the right, column `y` up, named by the one row of `names`.

    Columns `x_name` and `y_name` of `names` are what the axes show instead of the columns of the query. The
    series
    is written both as Grafana 9.4 to 11.0 read it and as later releases do; each ignores the other form.
    """
    built = _xychart(title, description, [query, names], show="points").no_value(none)
    by_name = {axis: {"matcher": {"id": "byName", "options": name}} for axis, name in (("x", x), ("y", y))}
    for source, column in (("x_name", x), ("y_name", y)):
        mapping = {"fieldName": source, "handlerKey": "displayName"}
        options = {
            "configRefId": "B",
            "mappings": [mapping],
            "applyTo": {"id": "byName", "options": column},
        }
        built.with_transformation(DataTransformerConfig(id_val="configFromData", options=options))
    frame = {"matcher": {"id": "byIndex", "options": 0}}
    return built.options(
        {
            "seriesMapping": "auto",
            "mapping": "manual",
            "dims": {"frame": 0},
            "series": [{"frame": frame, **by_name}],
            "legend": _legend(shown=False),
            "tooltip": _NO_TOOLTIP_ORDER,
        }
    )


def by_step(title: str, description: str, query: PostgresQuery) -> Panel:
    """Returns lines over training steps; the query has columns `step`, `metric` (the line) and `value`."""
    matrix = {"rowField": "step", "columnField": "metric", "valueField": "value", "emptyValue": "null"}
    built = _xychart(title, description, [query], show="lines")
    built.with_transformation(DataTransformerConfig(id_val="groupingToMatrix", options=matrix))
    return built.options(
        {
            "seriesMapping": "auto",
            "mapping": "auto",
            "dims": {"frame": 0},
            "series": [],
            "legend": _legend(),
            "tooltip": _NO_TOOLTIP_ORDER,
        }
    )


def _xychart(title: str, description: str, queries: Sequence[Query], show: str) -> Panel:
    built = panel("xychart", title, description, queries).unit("short")
    built.custom({"show": show, "pointSize": {"fixed": 6}, "lineWidth": 2, "fillOpacity": 50})
    return built.color_scheme(dashboard.FieldColor().mode(_PALETTE))


def node_graph(
    title: str, description: str, nodes: PostgresQuery, edges: PostgresQuery, arcs: Mapping[str, str]
) -> Panel:
    """Returns a graph of nodes and edges; `arcs` has the columns with the shares of a ring, and colours."""
    built = panel("nodeGraph", title, description, [nodes, edges]).options({})
    nodes.ref_id("nodes")
    edges.ref_id("edges")
    return _coloured(built, arcs)


def note(title: str, content: str) -> Panel:
    """Returns a panel with a text in Markdown."""
    built = dashboard.Panel().type("text").title(title)
    return built.options({"mode": "markdown", "content": content})
