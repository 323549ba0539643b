"""Shapes on a page, rendered as SVG, and as PNG with matplotlib."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from trackside.summaries.pictures import MissingMatplotlibError

DPI = 144
FONT = "DejaVu Sans"


@dataclass(frozen=True, slots=True)
class Box:
    """A filled rectangle; y grows downwards, all in px."""

    x: float
    y: float
    width: float
    height: float
    color: str


@dataclass(frozen=True, slots=True)
class Label:
    """A line of text; `anchor` is the part of it that is at x."""

    x: float
    y: float
    text: str
    size: float = 12
    anchor: Literal["start", "middle", "end"] = "start"
    color: str = "#222222"
    bold: bool = False


@dataclass(frozen=True, slots=True)
class Polyline:
    """A line through points; `dash`: px drawn and px left out, alternating."""

    points: tuple[tuple[float, float], ...]
    color: str
    width: float = 1.5
    dash: tuple[float, ...] = ()


Shape = Box | Label | Polyline


def svg(width: float, height: float, shapes: Sequence[Shape], description: str) -> str:
    """Returns the shapes as an SVG element of an HTML page; `description` is its accessible name."""
    parts = [
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" '
        f'aria-label="{escape(description)}" font-family="{FONT}, Verdana, sans-serif">',
        f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
        *(_element(shape) for shape in shapes),
        "</svg>",
    ]
    return "\n".join(parts)


def _element(shape: Shape) -> str:
    match shape:
        case Box():
            return (
                f'<rect x="{shape.x:.1f}" y="{shape.y:.1f}" width="{max(0.0, shape.width):.1f}" '
                f'height="{shape.height:.1f}" fill="{shape.color}"/>'
            )
        case Label():
            weight = ' font-weight="bold"' if shape.bold else ""
            return (
                f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size:g}" fill="{shape.color}" '
                f'text-anchor="{shape.anchor}"{weight}>{escape(shape.text)}</text>'
            )
        case Polyline():
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in shape.points)
            dash = f' stroke-dasharray="{" ".join(f"{part:g}" for part in shape.dash)}"' if shape.dash else ""
            return (
                f'<polyline points="{points}" fill="none" stroke="{shape.color}" '
                f'stroke-width="{shape.width:g}"{dash}/>'
            )


def png(width: float, height: float, shapes: Sequence[Shape]) -> bytes:
    """Returns the shapes as PNG; raises MissingMatplotlibError."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle
    except ImportError:
        raise MissingMatplotlibError(
            "a .png needs matplotlib (pip install 'trackside[plot]'); a .html file needs nothing"
        ) from None
    figure = Figure(figsize=(width / 72, height / 72), dpi=DPI, facecolor="#ffffff")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    aligned = {"start": "left", "middle": "center", "end": "right"}
    for shape in shapes:
        match shape:
            case Box():
                axes.add_patch(
                    Rectangle(
                        (shape.x, shape.y), max(0.0, shape.width), shape.height, color=shape.color, lw=0
                    )
                )
            case Label():
                axes.text(
                    shape.x,
                    shape.y,
                    shape.text.replace("$", r"\$"),
                    fontsize=shape.size * 0.92,
                    color=shape.color,
                    ha=aligned[shape.anchor],
                    va="baseline",
                    family=FONT,
                    weight="bold" if shape.bold else "normal",
                )
            case Polyline():
                xs, ys = zip(*shape.points, strict=True)
                # matplotlib counts dashes in widths of the line
                dash = (0, [part / shape.width for part in shape.dash]) if shape.dash else "-"
                line = Line2D(xs, ys, color=shape.color, lw=shape.width, ls=dash, dash_capstyle="butt")
                axes.add_line(line)
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=DPI)
    return written.getvalue()
