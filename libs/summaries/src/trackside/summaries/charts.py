"""Draws curves as text: charts of braille dots or letters, and sparklines of one line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from trackside.summaries.axes import TICKS
from trackside.summaries.curves import CurveAxis
from trackside.summaries.plotting import AXIS_NAMES, NOT_FINITE, ChartCurve, Plot, PlotScale, PreparedCurve

SPARKS = "▁▂▃▄▅▆▇█"
SEVERAL = "*"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
COLORS = (36, 33, 35, 32, 34, 31)
"""Cyan, yellow, magenta, green, blue and red, as the codes of ANSI (SGR)."""
MIN_WIDTH, MIN_HEIGHT = 20, 5

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille character's dots, by row and column."""
_ENTRY = 8
"""Columns that a curve takes in the legend at least, with its value."""
_LABEL_COLUMNS = 14
"""Columns that a label of the lower axis has at least."""


@dataclass(frozen=True, slots=True)
class ChartOptions:
    """How a chart is drawn: sizes in characters with axes and legend; `log_y` is a logarithmic value axis.

    With `color`, curves are told apart by colours of ANSI, else by letters.
    """

    width: int = 80
    height: int = 24
    axis: CurveAxis = "step"
    log_y: bool = False
    color: bool = False


def sparkline(values: Sequence[float] | NDArray[Any], width: int = 60) -> str:
    """Returns values as a line of blocks, one a value, at most `width`; a value that is not finite is a `×`.

    Of more values than that, the last of each column is shown.
    """
    shown = np.asarray(values, dtype=np.float64)
    if len(shown) > width:
        shown = shown[[(at + 1) * len(shown) // width - 1 for at in range(width)]]
    finite = np.isfinite(shown)
    if not finite.any():
        return NOT_FINITE * len(shown)
    scale = PlotScale.over(shown[finite])
    blocks = np.round(scale.parts(np.where(finite, shown, scale.low)) * (len(SPARKS) - 1))
    flat = scale.low == scale.high
    return "".join(
        SPARKS[0 if flat else int(block)] if known else NOT_FINITE
        for block, known in zip(blocks, finite, strict=True)
    )


def chart(curves: Sequence[ChartCurve], options: ChartOptions | None = None) -> list[str]:
    """Returns the lines of a chart of curves over one axis: at most `height`, none wider than `width`.

    A curve of any length is thinned to what its columns can show, so its extremes are seen. Where it is not
    finite it is interrupted, and the axis has a `×` in that column. On a logarithmic axis, the same holds for
    values that are not positive; the legend says how many. Raises ValueError for arrays of unequal lengths.
    """
    options = options or ChartOptions()
    width, height = max(MIN_WIDTH, options.width), max(MIN_HEIGHT, options.height)
    plot = Plot.of(curves, options.axis, 2 * width, log_y=options.log_y)
    letters = len(curves) > 1 and not options.color
    legend = _legend(plot, width, max(1, height // 3), letters=letters, color=options.color)
    if plot.y is None:
        return [*legend[: height - 1], plot.empty_text()]
    rows = height - 2 - len(legend)
    labels = {
        round((1 - place) * (rows - 1)): label for place, label in plot.y_ticks(max(2, rows // 3), width // 4)
    }
    margin = max(len(AXIS_NAMES[options.axis]), *(len(label) for label in labels.values())) + 1
    canvas = _Canvas(width - margin - 1, rows, letters=letters, color=options.color)
    for curve in plot.curves:
        canvas.draw(curve, plot)
    left = [labels.get(row, "").rjust(margin - 1) + (" ┤" if row in labels else " │") for row in range(rows)]
    body = [(head + line).rstrip() for head, line in zip(left, canvas.lines(), strict=True)]
    return [*body, *_x_axis(plot, canvas, margin), *legend]


class _Canvas:
    """Cells of a chart: braille dots, or one letter for each curve; rows grow downwards."""

    def __init__(self, columns: int, rows: int, *, letters: bool, color: bool) -> None:
        self.columns, self.rows = columns, rows
        self._letters, self._color = letters, color
        self._dots = (1, 1) if letters else (2, 4)
        self._bits = [[0] * columns for _ in range(rows)]
        self._curves: list[list[set[int]]] = [[set() for _ in range(columns)] for _ in range(rows)]
        self._last: list[list[int]] = [[0] * columns for _ in range(rows)]
        self.not_finite: set[int] = set()

    def draw(self, curve: PreparedCurve, plot: Plot) -> None:
        """Draws the points of a curve and lines between neighbours, none across what is not finite."""
        assert plot.x is not None and plot.y is not None
        across, down = self._dots
        xs = np.round(plot.x.parts(curve.positions) * (self.columns * across - 1)).astype(int).tolist()
        heights = plot.y.parts(np.where(curve.finite, curve.values, plot.y.low))
        ys = np.round((1 - heights) * (self.rows * down - 1)).astype(int).tolist()
        before: tuple[int, int] | None = None
        for point, finite in zip(zip(xs, ys, strict=True), curve.finite.tolist(), strict=True):
            if finite:
                self._line(before or point, point, curve.index)
                before = point
            else:
                self.not_finite.add(point[0] // across)
                before = None

    def lines(self) -> list[str]:
        """Returns the rows as text."""
        return ["".join(self._row(row)) for row in range(self.rows)]

    def _line(self, start: tuple[int, int], end: tuple[int, int], curve: int) -> None:
        length = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for at in range(length + 1):
            x = start[0] + round((end[0] - start[0]) * at / length)
            y = start[1] + round((end[1] - start[1]) * at / length)
            row, column = y // self._dots[1], x // self._dots[0]
            self._bits[row][column] |= _DOTS[y % self._dots[1]][x % self._dots[0]]
            self._curves[row][column].add(curve)
            self._last[row][column] = curve

    def _row(self, row: int) -> Iterator[str]:
        """Yields stretches of a row; blank cells have no colour."""
        cells = zip(self._bits[row], self._curves[row], self._last[row], strict=True)
        stretches = groupby(cells, key=lambda cell: cell[2] if cell[0] and self._color else None)
        for curve, stretch in stretches:
            text = "".join(self._cell(bits, curves) for bits, curves, _ in stretch)
            yield text if curve is None else _colored(text, curve)

    def _cell(self, bits: int, curves: set[int]) -> str:
        if not bits:
            return " "
        if not self._letters:
            return chr(_BRAILLE + bits)
        return SEVERAL if len(curves) > 1 else _letter(min(curves))


def _x_axis(plot: Plot, canvas: _Canvas, margin: int) -> list[str]:
    """Returns the line below the plot, and the labels below that."""
    line = ["─"] * canvas.columns
    below = AXIS_NAMES[plot.axis].rjust(margin - 1) + "  "
    free = len(below)
    for part, label in plot.x_ticks(max(2, min(TICKS, canvas.columns // _LABEL_COLUMNS))):
        place = round(part * (canvas.columns - 1))
        line[place] = "┬"
        begin = min(margin + 1 + place - len(label) // 2, margin + 1 + canvas.columns - len(label))
        begin = max(begin, len(below)) if len(below) == free else begin
        if begin >= free and begin + len(label) <= margin + 1 + canvas.columns:
            below = below.ljust(begin) + label
            free = len(below) + 1
    for place in canvas.not_finite:
        line[place] = NOT_FINITE
    return [" " * margin + "└" + "".join(line), below]


def _legend(plot: Plot, width: int, most: int, *, letters: bool, color: bool) -> list[str]:
    """Returns at most `most` lines that name the curves, and what of them has no place on the axes."""
    notes = [f"{SEVERAL} several"] if letters else []
    notes += [f"{NOT_FINITE} {', '.join(plot.gaps())}"] if plot.gaps() else []
    drawn = plot.curves
    for shown in range(min(len(drawn), most * width // _ENTRY), -1, -1):
        rest = [f"and {len(drawn) - shown} more"] if shown < len(drawn) else []
        entries: list[tuple[str, int | None]] = []
        for one in drawn[:shown]:
            marker = f"{_letter(one.index)} " if letters else "━━ " if color else ""
            entries.append((_cut(marker + one.label, width), one.index if color else None))
        entries += [(_cut(text, width), None) for text in (*rest, *notes)]
        lines = _packed(entries, width)
        if len(lines) <= most:
            return lines
    return lines[:most]


def _packed(entries: Sequence[tuple[str, int | None]], width: int) -> list[str]:
    """Returns the entries in lines of at most `width`, with gaps of three between them."""
    lines: list[str] = []
    used = width
    for text, curve in entries:
        shown = text if curve is None else _colored(text, curve)
        if used + 3 + cell_len(text) > width:
            lines.append(shown)
            used = cell_len(text)
        else:
            lines[-1] += "   " + shown
            used += 3 + cell_len(text)
    return lines


def _letter(curve: int) -> str:
    return LETTERS[curve % len(LETTERS)]


def _colored(text: str, curve: int) -> str:
    return f"\x1b[{COLORS[curve % len(COLORS)]}m{text}\x1b[0m"


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"
