"""Curves as PNG and SVG, by matplotlib."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from trackside.summaries.curves import CurveAxis

if TYPE_CHECKING:
    from trackside.summaries.plotting import ChartCurve, Plot

PictureForm = Literal["png", "svg"]
DPI = 144
POINTS = 72
"""Points of a font in an inch; sizes in px are taken for points, and a PNG has two pixels for each."""
MAX_NAMED = 20
"""Curves that the legend names."""

_STYLE = "tableau-colorblind10"
_COLORS, _DASHES = 10, ("-", "--", ":", "-.")
_GAP_HEIGHT = 0.02


class MissingMatplotlibError(Exception):
    """A picture needs matplotlib, which isn't installed."""


@dataclass(frozen=True, slots=True)
class PictureOptions:
    """How curves are drawn as a picture: sizes in px; `log_y` is a logarithmic value axis."""

    form: PictureForm = "png"
    title: str = ""
    width: int = 960
    height: int = 540
    axis: CurveAxis = "step"
    log_y: bool = False


def picture(curves: Sequence["ChartCurve"], options: PictureOptions | None = None) -> bytes:
    """Returns curves as a PNG, or as an SVG without scripts; equal curves are equal bytes.

    A curve is interrupted where it is not finite, with a mark at the lower axis. Raises ValueError for arrays
    of unequal lengths, and MissingMatplotlibError.
    """
    import warnings

    from trackside.summaries.plotting import Plot, printable_name

    options = options or PictureOptions()
    plot = Plot.of(curves, options.axis, 2 * options.width, log_y=options.log_y)
    try:
        from matplotlib import rc_context, style
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingMatplotlibError(
            "a picture needs matplotlib (pip install 'trackside[plot]'); a chart in the terminal does not"
        ) from None
    fixed = {"svg.hashsalt": "trackside", "svg.fonttype": "path", "text.parse_math": False}
    written = io.BytesIO()
    # A letter that the font lacks is drawn as a box, which is no reason to warn.
    with style.context(_STYLE), rc_context(fixed), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        size = options.width / POINTS, options.height / POINTS
        figure = Figure(figsize=size, dpi=DPI, facecolor="#ffffff", layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(printable_name(options.title), fontsize=12)
        _draw(axes, plot)
        metadata = {"Date": None} if options.form == "svg" else {"Software": None}
        figure.savefig(written, format=options.form, dpi=DPI, metadata=metadata)
    return written.getvalue()


def _draw(axes: Any, plot: "Plot") -> None:
    """Draws the curves on axes from 0 to 1, to which each value and position has been scaled exactly."""
    import numpy as np

    from trackside.summaries.plotting import AXIS_NAMES

    axes.set_xlim(-0.01, 1.01)
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel(AXIS_NAMES[plot.axis])
    if plot.x is None or plot.y is None:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.text(0.5, 0.5, plot.empty_text(), ha="center", va="center")
        return
    for curve in plot.curves:
        xs = plot.x.parts(curve.positions)
        ys = np.where(curve.finite, plot.y.parts(np.where(curve.finite, curve.values, plot.y.low)), np.nan)
        alone = _alone(curve.finite)
        color, dash = f"C{curve.index % _COLORS}", _DASHES[curve.index // _COLORS % len(_DASHES)]
        named = curve.label if curve.index < MAX_NAMED else "_"
        axes.plot(xs, ys, linestyle=dash, color=color, linewidth=1.4, label=named)
        axes.plot(xs[alone], ys[alone], ".", color=color, markersize=4)
        gaps = xs[~curve.finite]
        axes.plot(gaps, np.full(len(gaps), -_GAP_HEIGHT), "x", color=color, markersize=5)
    for set_ticks, found in ((axes.set_xticks, plot.x_ticks(8)), (axes.set_yticks, plot.y_ticks(6, 12))):
        set_ticks([place for place, _ in found], [label for _, label in found])
    axes.grid(color="#e4e4e4")
    notes = [f"x {', '.join(plot.gaps())}"] if plot.gaps() else []
    notes += [f"and {len(plot.curves) - MAX_NAMED} more"] if len(plot.curves) > MAX_NAMED else []
    handles, _ = axes.get_legend_handles_labels()
    axes.legend(handles=handles, title="   ".join(notes) or None, fontsize=9, title_fontsize=9)


def _alone(finite: Any) -> Any:
    """Returns which points have no neighbour to be joined with by a line."""
    import numpy as np

    before, after = np.append(False, finite[:-1]), np.append(finite[1:], False)
    return finite & ~before & ~after
