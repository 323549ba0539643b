"""Pictures of a run: its graph, its flow with the parameters of steps, and both on a page without scripts."""

from collections.abc import Sequence
from html import escape
from typing import Any

from trackside.cli.render.run_layout import DrawnStep, connected, layers_of
from trackside.whatif.charts.canvas import Box, Label, Polyline, Shape, svg

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN = 190.0, 58.0, 60.0, 18.0, 16.0
LINE, BAR, TEXT_WIDTH = 15.0, 14.0, 230.0
EDGE, LINK, BORDER = "#8a94a6", "#d5dce8", 2.0
SHOWN_NAME, SHOWN_LINE = 24, 34
_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; } svg { max-width: 100%; height: auto; }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .8rem; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
"""


def graph_svg(steps: Sequence[DrawnStep], title: str) -> str:
    """Returns the graph: a box for each step with its state as colour and text, and its time."""
    layers = layers_of(steps)
    rows = max((len(layer) for layer in layers), default=0)
    height = 2 * MARGIN + rows * (HEIGHT + GAP_Y)
    corners: dict[str, tuple[float, float]] = {}
    for at, layer in enumerate(layers):
        top = (height - len(layer) * (HEIGHT + GAP_Y) + GAP_Y) / 2
        for row, step in enumerate(layer):
            corners[step.name] = (MARGIN + at * (WIDTH + GAP_X), top + row * (HEIGHT + GAP_Y))
    shapes: list[Shape] = [
        shape
        for step in steps
        for needed in step.needs
        for shape in _edge(corners[needed], corners[step.name])
    ]
    for step in steps:
        shapes += _box(step, *corners[step.name])
    width = 2 * MARGIN + len(layers) * (WIDTH + GAP_X) - GAP_X
    return _standalone(svg(width, height, shapes, title), width, height)


def flow_svg(steps: Sequence[DrawnStep], title: str) -> str:
    """Returns the flow: a bar for each step with its name and parameters; those that stand alone below."""
    joined, alone = connected(steps)
    layers = layers_of(joined)
    tall = max((sum(_tall(step) for step in layer) for layer in layers), default=0.0)
    places: dict[str, tuple[float, float]] = {}
    for at, layer in enumerate(layers):
        top = MARGIN + (tall - sum(_tall(step) for step in layer)) / 2
        for step in layer:
            places[step.name] = (MARGIN + at * (BAR + TEXT_WIDTH), top)
            top += _tall(step)
    below = MARGIN + tall + (LINE if alone and joined else 0.0)
    for at, step in enumerate(alone):
        places[step.name] = (MARGIN + at * (BAR + TEXT_WIDTH), below)
    middle = {step.name: places[step.name][1] + (_tall(step) - LINE) / 2 for step in joined}
    shapes: list[Shape] = [
        Polyline(
            ((places[needed][0] + BAR, middle[needed]), (places[step.name][0], middle[step.name])), LINK, 10.0
        )
        for step in joined
        for needed in step.needs
    ]
    for step in steps:
        shapes += _bar(step, *places[step.name])
    width = 2 * MARGIN + max(len(layers), len(alone), 1) * (BAR + TEXT_WIDTH)
    height = below + max((_tall(step) for step in alone), default=0.0) + MARGIN
    return _standalone(svg(width, height, shapes, title), width, height)


def plotly_figure(steps: Sequence[DrawnStep], title: str) -> dict[str, Any]:
    """Returns the flow as a figure for Plotly, whose labels are HTML: all texts in it are escaped.

    Steps that stand alone are markers in a second row, a quarter as high.
    """
    joined, alone = connected(steps)
    at = {step.name: number for number, step in enumerate(joined)}
    pairs = [(at[needed], at[step.name]) for step in joined for needed in step.needs]
    sankey = {
        "type": "sankey",
        "domain": {"x": [0, 1], "y": [0.25 if alone else 0, 1]},
        "node": {"label": [_html(step) for step in joined], "color": [step.color for step in joined]},
        "link": {
            "source": [source for source, _ in pairs],
            "target": [target for _, target in pairs],
            "value": [1] * len(pairs),
        },
    }
    markers = {
        "type": "scatter",
        "mode": "markers+text",
        "x": list(range(len(alone))),
        "y": [1] * len(alone),
        "text": [_html(step) for step in alone],
        "textposition": "top center",
        "marker": {"color": [step.color for step in alone], "size": 16, "symbol": "square"},
        "hoverinfo": "none",
    }
    hidden = {"visible": False}
    return {
        "data": [*([sankey] if joined else []), *([markers] if alone else [])],
        "layout": {
            "title": {"text": escape(title)},
            "showlegend": False,
            "xaxis": hidden,
            "yaxis": {**hidden, "domain": [0, 0.2 if joined else 1]},
        },
    }


def page(steps: Sequence[DrawnStep], title: str, about: str) -> str:
    """Returns an HTML page with the graph, the flow, and the steps with their tasks and parameters."""
    rows = "\n".join(
        f"<tr><td>{escape(step.name)}</td><td>{escape(step.task)}</td><td>{escape(step.state)}</td>"
        f"<td>{'<br>'.join(escape(f'{name}: {value}') for name, value in step.parameters.items())}</td></tr>"
        for step in steps
    )
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1><p>{escape(about)}</p>",
        graph_svg(steps, f"The steps of {title}"),
        f"<h2>Flow</h2>{flow_svg(steps, f'The flow of {title}')}",
        "<h2>Steps</h2><table><tr><th>Step</th><th>Task</th><th>State</th><th>Parameters</th></tr>",
        f"{rows}</table></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _standalone(picture: str, width: float, height: float) -> str:
    size = f'xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
    return picture.replace("<svg ", f"<svg {size}", 1)


def _html(step: DrawnStep) -> str:
    return "<br>".join(escape(line) for line in step.lines)


def _box(step: DrawnStep, x: float, y: float) -> list[Shape]:
    inner = Box(x + 6, y + BORDER, WIDTH - 6 - BORDER, HEIGHT - 2 * BORDER, "#ffffff")
    right = "  ".join(text for text in (step.items, step.took) if text)
    return [
        Box(x, y, WIDTH, HEIGHT, step.color),
        inner,
        Label(x + 14, y + 19, _shortened(step.name, SHOWN_NAME), 13, bold=True),
        Label(x + 14, y + 34, _shortened(step.what, SHOWN_NAME), 11, color="#555555"),
        Label(x + 14, y + 50, step.state, 11),
        Label(x + WIDTH - 8, y + 50, right, 11, "end", "#555555"),
    ]


def _edge(source: tuple[float, float], target: tuple[float, float]) -> list[Shape]:
    begin, end = (source[0] + WIDTH, source[1] + HEIGHT / 2), (target[0], target[1] + HEIGHT / 2)
    bend = end[0] - GAP_X / 2
    head = ((end[0] - 7, end[1] - 4), end, (end[0] - 7, end[1] + 4))
    points = (begin, (begin[0] + GAP_X / 4, begin[1]), (bend, end[1]), end)
    return [Polyline(points, EDGE), Polyline(head, EDGE)]


def _tall(step: DrawnStep) -> float:
    return LINE * len(step.lines) + 2 * LINE


def _bar(step: DrawnStep, x: float, y: float) -> list[Shape]:
    labels = [
        Label(x + BAR + 6, y + LINE * (at + 1) - 3, _shortened(line, SHOWN_LINE), 11, bold=at == 0)
        for at, line in enumerate(step.lines)
    ]
    return [Box(x, y, BAR, _tall(step) - LINE, step.color), *labels]


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
