"""Draws curves as text: charts of braille dots or letters, and sparklines of one line."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size

from trackside.summaries.axes import (
    TICKS,
    clock_labels,
    duration_labels,
    log_ticks,
    number_labels,
    short_number,
    ticks,
    time_ticks,
)
from trackside.summaries.curves import CurveAxis
from trackside.summaries.thinning import POINTS_PER_BUCKET, thin

SPARKS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "\N{MULTIPLICATION SIGN}"
SEVERAL = "*"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
COLORS = (36, 33, 35, 32, 34, 31)
"""Cyan, yellow, magenta, green, blue and red, as the codes of ANSI (SGR)."""
MIN_WIDTH, MIN_HEIGHT = 20, 5

_BRAILLE = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bits of a braille character's dots, by row and column."""
_LABEL_COLUMNS = 14
"""Columns that a label of the lower axis has at least."""
_EXACT = 2**53
_NAMES = {"step": "step", "relative": "time", "wall": "UTC"}


@dataclass(frozen=True, slots=True)
class ChartCurve:
    """One curve of a chart: equally long arrays; values that are not finite are gaps.

    Positions are steps, seconds or milliseconds since 1970, as the chart's axis says; any order.
    """

    name: str
    positions: NDArray[Any]
    values: NDArray[Any]


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
    scale = _Scale.over(shown[finite])
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
    drawn = [_Drawn.of(curve, at, options) for at, curve in enumerate(curves)]
    letters = len(curves) > 1 and not options.color
    legend = _legend(drawn, width, max(1, height // 3), letters=letters, color=options.color)
    finite = [one for one in drawn if one.finite.any()]
    if not finite:
        empty = "no values to draw" if any(len(one.values) for one in drawn) else "no points"
        return [*legend[: height - 1], empty]
    values = np.concatenate([one.values[one.finite] for one in finite])
    y = _Scale.over(values, around=0.5 if options.log_y else abs(float(values[0])) * 0.05 or 1.0)
    x = _Scale.over(np.concatenate([one.positions[[0, -1]] for one in drawn if len(one.positions)]))
    rows = height - 2 - len(legend)
    y_labels = _y_labels(y, rows, width // 4, log=options.log_y)
    margin = max(cell_len(_NAMES[options.axis]), *(len(label) for label in y_labels.values())) + 1
    columns = width - margin - 1
    canvas = _Canvas(columns, rows, letters=letters, color=options.color)
    for one in drawn:
        canvas.draw(one, x, y)
    left = [
        y_labels.get(row, "").rjust(margin - 1) + (" ┤" if row in y_labels else " │") for row in range(rows)
    ]
    body = [(head + line).rstrip() for head, line in zip(left, canvas.lines(), strict=True)]
    return [*body, *_x_axis(x, canvas, margin, options.axis), *legend]


@dataclass(frozen=True, slots=True)
class _Scale:
    """A linear range of values or positions; a point is drawn in its middle."""

    low: Any
    high: Any

    @classmethod
    def over(cls, values: NDArray[Any], around: float = 0.0) -> "_Scale":
        """Returns the range of finite values; for a single value, one that reaches `around` it."""
        low, high = values.min().item(), values.max().item()
        return cls(low - around, high + around) if low == high and around else cls(low, high)

    def parts(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Returns where values are in the range: 0 at its low end, 1 at its high end."""
        if self.low == self.high:
            return np.full(len(values), 0.5)
        if isinstance(self.low, int) and self.high - self.low < 2**63:
            return np.asarray((values - self.low) / (self.high - self.low), dtype=np.float64)
        # A quarter of each: the difference of very large numbers has no float.
        low, span = self.low / 4, self.high / 4 - self.low / 4
        if span == 0:
            return np.asarray((values - self.low) / (self.high - self.low), dtype=np.float64)
        return np.asarray((values / 4 - low) / span, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A curve ready to be drawn: in order of positions, thinned, on a logarithmic axis as logarithms."""

    label: str
    index: int
    positions: NDArray[Any]
    values: NDArray[np.float64]
    finite: NDArray[np.bool_]
    kinds: frozenset[str]
    not_positive: int

    @classmethod
    def of(cls, curve: ChartCurve, index: int, options: ChartOptions) -> "_Drawn":
        """Returns a curve as the options say; raises ValueError for arrays of unequal lengths."""
        order = np.argsort(curve.positions, kind="stable")
        positions, values = curve.positions[order], np.asarray(curve.values, dtype=np.float64)[order]
        kept = thin(positions, values, 2 * POINTS_PER_BUCKET * options.width)
        kinds = {
            name
            for name, found in (
                ("NaN", np.isnan(values)),
                ("Inf", values == np.inf),
                ("-Inf", values == -np.inf),
            )
            if found.any()
        }
        finite_values = values[np.isfinite(values)]
        last = f"  last {short_number(float(finite_values[-1]))}" if len(finite_values) else "  no values"
        label = _printable(curve.name) + last
        not_positive = int((finite_values <= 0).sum()) if options.log_y else 0
        positions, values = positions[kept], values[kept]
        finite = np.isfinite(values)
        if options.log_y:
            finite &= values > 0
            values = np.log10(np.where(finite, values, 1.0))
        return cls(label, index, positions, values, finite, frozenset(kinds), not_positive)


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

    def draw(self, curve: _Drawn, x: _Scale, y: _Scale) -> None:
        """Draws the points of a curve and lines between neighbours, none across what is not finite."""
        across, down = self._dots
        xs = np.round(x.parts(curve.positions) * (self.columns * across - 1)).astype(int).tolist()
        heights = y.parts(np.where(curve.finite, curve.values, y.low))
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


def _y_labels(y: _Scale, rows: int, longest: int, *, log: bool) -> dict[int, str]:
    """Returns the labels of the value axis by row; they are less exact than `longest` characters need."""
    count = max(2, rows // 3)
    if log:
        low, high = (10.0 ** min(max(end, -323), 308) for end in (y.low, y.high))
        values = log_ticks(low, high, count)
        labels, places = [short_number(value) for value in values], np.log10(values)
    else:
        values = ticks(y.low, y.high, count)
        labels, places = number_labels(values), np.array(values)
    if max(map(len, labels)) > longest:
        labels = [short_number(value) for value in values]
    at = np.round((1 - y.parts(places)) * (rows - 1)).astype(int).tolist()
    return {row: label for row, label in zip(at, labels, strict=True) if 0 <= row < rows}


def _x_axis(x: _Scale, canvas: _Canvas, margin: int, axis: CurveAxis) -> list[str]:
    """Returns the line below the plot, and the labels below that."""
    values, labels = _x_ticks(x, max(2, min(TICKS, canvas.columns // _LABEL_COLUMNS)), axis)
    places = np.round(x.parts(np.array(values)) * (canvas.columns - 1)).astype(int).tolist()
    line = ["─"] * canvas.columns
    below = _NAMES[axis].rjust(margin - 1) + "  "
    free = len(below)
    for place, label in zip(places, labels, strict=True):
        line[place] = "┬"
        begin = min(margin + 1 + place - len(label) // 2, margin + 1 + canvas.columns - len(label))
        begin = max(begin, len(below)) if len(below) == free else begin
        if begin >= free and begin + len(label) <= margin + 1 + canvas.columns:
            below = below.ljust(begin) + label
            free = len(below) + 1
    for place in canvas.not_finite:
        line[place] = NOT_FINITE
    return [" " * margin + "└" + "".join(line), below]


def _x_ticks(x: _Scale, count: int, axis: CurveAxis) -> tuple[list[Any], list[str]]:
    """Returns the positions of the ticks of the lower axis, and their labels."""
    match axis:
        case "step" if isinstance(x.low, int) and max(-x.low, x.high) >= _EXACT:
            # No float tells such steps apart: the first one is shown, the others by their distance.
            later = [int(offset) for offset in ticks(0, x.high - x.low, count) if offset]
            labels = [str(x.low), *(f"+{label}" for label in number_labels(later))]
            return [x.low, *(x.low + offset for offset in later)], labels
        case "step":
            values = ticks(x.low, x.high, count)
            values = [value for value in values if value == round(value)] or values[:1]
            return values, number_labels(values)
        case "relative":
            values = time_ticks(x.low, x.high, count)
            return values, duration_labels(values)
        case "wall":
            values = time_ticks(x.low / 1000, x.high / 1000, count)
            return [value * 1000 for value in values], clock_labels(values)


def _legend(drawn: Sequence[_Drawn], width: int, most: int, *, letters: bool, color: bool) -> list[str]:
    """Returns at most `most` lines that name the curves, and what of them has no place on the axes."""
    kinds = sorted({kind for one in drawn for kind in one.kinds}, key=["NaN", "Inf", "-Inf"].index)
    not_positive = sum(one.not_positive for one in drawn)
    notes = [f"{SEVERAL} several"] if letters else []
    kinds += [f"{not_positive} not positive"] if not_positive else []
    notes += [f"{NOT_FINITE} {', '.join(kinds)}"] if kinds else []
    for shown in range(len(drawn), -1, -1):
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


def _printable(text: str) -> str:
    """Returns text with its control characters, and what changes the order of letters, as escapes."""
    return "".join(
        f"\\x{ord(letter):02x}" if unicodedata.category(letter)[0] == "C" else letter for letter in text
    )
