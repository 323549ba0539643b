import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from trackside.summaries.charts import ChartOptions, chart, sparkline
from trackside.summaries.curves import CurveAxis
from trackside.summaries.plotting import NOT_FINITE, ChartCurve

NAN, INF = math.nan, math.inf
DOTS = re.compile("[\u2801-\u28ff]")
VALUES = st.floats(width=64) | st.sampled_from([0.0, 5e-324, 1.7e308, -1.7e308])


def curve(name: str, values: list[float] | NDArray[Any], positions: NDArray[Any] | None = None) -> ChartCurve:
    at = np.arange(len(values)) if positions is None else positions
    return ChartCurve(name, at, np.array(values, dtype=np.float64))


def plot_of(lines: list[str]) -> list[str]:
    return [re.split("[│┤]", line, maxsplit=1)[1] for line in lines if re.search("[│┤]", line)]


RISING = """\
   4 ┤               ⢀⠤⠊
     │             ⡠⠒⠁
     │          ⢀⠤⠊
   2 ┤        ⣀⠔⠁
     │     ⣀⠔⠊
     │  ⢀⠤⠊
   0 ┤⡠⠒⠁
     └┬───────┬────────┬
step  0       2        4
up  last 4"""


def test_a_rising_line_rises() -> None:
    lines = chart([curve("up", [0, 1, 2, 3, 4])], ChartOptions(width=24, height=10))
    assert "\n".join(lines) == RISING
    turned = curve("up", [4, 3, 2, 1, 0], np.arange(4, -1, -1))
    assert chart([turned], ChartOptions(width=24, height=10)) == lines, "positions in any order are sorted"


def test_a_gap_and_a_spike_are_seen() -> None:
    values = np.ones(1_000)
    values[400:600], values[800] = NAN, -INF
    lines = chart([curve("loss", values)], ChartOptions(width=60, height=8))
    [row] = [row for row in plot_of(lines) if DOTS.search(row)]
    assert re.fullmatch(r"[^ ]+ {8,}[^ ]+", row.strip())
    assert NOT_FINITE * 8 in lines[-3] and lines[-1] == f"loss  last 1   {NOT_FINITE} NaN, -Inf"
    values = np.zeros(1_000_000)
    values[654_321] = 9.0
    rows = plot_of(chart([curve("loss", values)], ChartOptions(height=12)))
    assert DOTS.search(rows[0])
    assert rows[0].rstrip().find(DOTS.findall(rows[0])[0]) == pytest.approx(50, abs=2)


def test_each_curve_has_its_colour_or_without_colours_its_letter() -> None:
    two = [curve("first", [0, 0]), curve("second", [1, 1])]
    lines = chart([*two, curve("third", [0, 1])])
    rows = plot_of(lines)
    assert set(rows[-1].strip()) == {"A", "*"} and set(rows[0].strip()) == {"B", "*"}
    assert "C" in rows[10]
    assert lines[-1] == "A first  last 0   B second  last 1   C third  last 1   * several"
    lines = chart(two, ChartOptions(color=True))
    assert "\x1b[36m" in lines[-4] and "\x1b[33m" in lines[0]
    assert lines[-1] == "\x1b[36m━━ first  last 0\x1b[0m   \x1b[33m━━ second  last 1\x1b[0m"


def test_a_logarithmic_axis_has_powers_of_ten_and_says_what_it_cannot_show() -> None:
    values = 10.0 ** -np.arange(5)
    lines = chart([curve("loss", [*values, 0, -1, NAN])], ChartOptions(log_y=True, height=22, width=40))
    labels = [line.partition("┤")[0].strip() for line in lines if "┤" in line]
    assert labels == ["1", "0.1", "0.01", "0.001", "0.0001"]
    assert lines[-1] == f"loss  last -1   {NOT_FINITE} NaN, 2 not positive"
    falling = [min(at for at, row in enumerate(plot_of(lines)) if column < len(row) and row[column] != " ")
               for column in (0, 4, 9, 14, 18)]  # fmt: skip
    assert falling == sorted(set(falling)), "a straight line down"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], "no points"),
        ([NAN, INF], "no values to draw"),
        ([3.5], "one  last 3.5"),
        ([2.0] * 50, "one  last 2"),
    ],
)
def test_empty_constant_and_single_curves_are_charts(values: list[float], expected: str) -> None:
    lines = chart([curve("one", values)], ChartOptions(height=8))
    assert lines[-1] == expected
    assert sum(bool(DOTS.search(row)) for row in plot_of(lines)) == (1 if "last" in expected else 0)
    assert chart([]) == ["no points"]


@pytest.mark.parametrize(
    ("axis", "positions", "below"),
    [
        ("step", np.array([0, 1_500_000]), r"step  0 +500k +1M +1.5M"),
        ("step", np.array([2**60, 2**60 + 100]), r"step  1152921504606846976( +\+\d+)+ +\+100"),
        ("step", np.array([2**60, 2**60 + 2]), r"step  1152921504606846976 +\+1 +\+2"),
        ("step", np.array([0, 2**62]), r"step  0 +1e\+18 +2e\+18 +3e\+18 +4e\+18"),
        ("relative", np.array([0.0, 7_200.0]), r"time  0 min +30 min +60 min +90 min +120 min"),
        (
            "wall",
            1_700_000_000_000 + np.array([0, 7_200_000]),
            r"UTC +11-14 22:30 +23:00 +23:30 +11-15 00.00",
        ),
    ],
)
def test_the_lower_axis_is_in_steps_durations_or_times(axis: CurveAxis, positions: Any, below: str) -> None:
    lines = chart([curve("a", [1.0, 2.0], positions)], ChartOptions(axis=axis, height=8))
    assert re.fullmatch(below, lines[-2].rstrip()), lines[-2]


def test_long_names_are_cut_and_of_many_curves_the_legend_names_the_first() -> None:
    lines = chart([curve("a\x1b[31m\n\u202e" + "日本" * 60, [1, 2])], ChartOptions(width=40))
    assert lines[-1].startswith(r"a\x1b[31m\x0a\x202e日本") and lines[-1].endswith("…")
    assert cell_len(lines[-1]) <= 40
    lines = chart([curve(f"run {at}", [at, at]) for at in range(100)], ChartOptions(height=12))
    assert len(lines) == 12 and "and 8" in lines[-1] and "more   * several" in lines[-1]


@settings(max_examples=60)
@given(
    st.lists(st.lists(VALUES, max_size=30), max_size=4), st.integers(0, 2**63 - 40), st.integers(1, 100),
    st.integers(1, 40), st.booleans(), st.booleans(),
)  # fmt: skip
def test_every_chart_fits_its_size(
    curves: list[list[float]], first: int, width: int, height: int, log_y: bool, color: bool
) -> None:
    drawn = [curve(str(at), values, first + np.arange(len(values))) for at, values in enumerate(curves)]
    lines = chart(drawn, ChartOptions(width, height, "step", log_y, color))
    assert 1 <= len(lines) <= max(5, height)
    assert all(cell_len(Text.from_ansi(line).plain) <= max(20, width) for line in lines)


def test_a_line_of_blocks_has_one_for_each_value_up_to_its_width() -> None:
    assert sparkline([1, 2, 3, 4]) == "▁▃▆█"
    assert sparkline([5, 5]) == "▁▁" and sparkline([]) == "" and sparkline([NAN]) == NOT_FINITE
    assert sparkline([1, NAN, 2, INF]) == f"▁{NOT_FINITE}█{NOT_FINITE}"
    assert sparkline(range(1_000), 8) == "▁▂▃▄▅▆▇█"
