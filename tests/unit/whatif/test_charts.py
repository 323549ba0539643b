"""The pictures of what-if: nothing lies over anything else, and everything can be told apart."""

import itertools
import re

import pytest

from tests.unit.whatif.given import MEDIAN, recorded, trace
from trackside.whatif.charts.bar_chart import page
from trackside.whatif.charts.curve_chart import COLORS, DASHES, duration
from trackside.whatif.compare import Comparison, ScenarioGrid, compare, parse_assessor

LONG = "median:n_startup_trials=3,n_warmup_steps=2,interval_steps=2,n_min_trials=4"
TEXT = re.compile(
    r'<text x="([\d.]+)" y="([\d.]+)" font-size="([\d.]+)" [^>]*text-anchor="(\w+)"[^>]*>([^<]*)<'
)


def asked(*assessors: str, direction: str = "maximize") -> Comparison:
    """Compares assessors on a search whose first trial is far worse than the others."""
    values = [0.05, 0.91, 0.91, 0.92, 0.93, 0.93, 0.94, 0.96]
    traces = [trace(at, [value / 2, value * 0.9, value]) for at, value in enumerate(values)]
    recording = recorded(*traces, direction=direction)
    return compare(recording, ScenarioGrid([MEDIAN, *(parse_assessor(text) for text in assessors)]))


def texts(found: Comparison) -> list[tuple[float, float, float, str, str]]:
    said = TEXT.findall(page(found))
    return [(float(x), float(y), float(size), anchor, words) for x, y, size, anchor, words in said]


def test_no_text_lies_over_another() -> None:
    """A letter of the font is at most 0.66 of its size wide, on average over a line."""
    boxes = []
    for x, y, size, anchor, words in texts(asked(LONG, "asha", "curve-fitting:epochs=3")):
        width = len(words) * size * 0.66
        left = {"start": x, "middle": x - width / 2, "end": x - width}[anchor]
        boxes.append((left, left + width, y - size * 0.8, y + size * 0.2, words))
    for one, other in itertools.combinations(boxes, 2):
        apart = one[1] <= other[0] or other[1] <= one[0] or one[3] <= other[2] or other[3] <= one[2]
        assert apart, f"{one[4]} lies over {other[4]}"


def test_names_end_before_the_bars_and_durations_are_in_the_largest_unit() -> None:
    names = [words for x, y, _, _, words in texts(asked(LONG)) if x == 20 and y > 92]
    assert max(map(len, names)) <= 36
    assert sum(name.endswith("(frozen)") for name in names) == 2
    assert sum(name.endswith("(freed)") for name in names) == 2
    assert [duration(s) for s in (0.5, 119, 120, 7_200, 172_800)] == ["0.5 s", "119 s", "2 min", "2 h", "2 d"]


def test_no_two_curves_look_alike_without_their_colours() -> None:
    """Those with one dash differ in width too; colours are no two alike."""
    assert len(COLORS) == len(DASHES) == len(set(COLORS))
    drawn = re.findall(
        r'stroke="(#\w+)" stroke-width="([\d.]+)"(?: stroke-dasharray="([^"]*)")?/>',
        page(asked(LONG, "asha")),
    )
    seen = {line for line in drawn if line[0] in COLORS}
    assert len({(width, dash) for _, width, dash in seen}) == len({color for color, _, _ in seen}) == 4


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_a_bad_first_value_does_not_press_the_others_together(direction: str) -> None:
    found = asked("asha", direction=direction)
    ticks = [float(words) for x, _, _, anchor, words in texts(found) if anchor == "end" and x == 74.0]
    assert len(ticks) >= 3
    said = " ".join(words for *_, words in texts(found))
    if direction == "maximize":
        assert min(ticks) > 0.8
        assert "worse values, at first, are off the scale" in said
        assert "higher is better" in said
    else:
        assert "lower is better" in said and "off the scale" not in said


def test_the_page_has_the_numbers_as_a_table_and_needs_nothing_from_elsewhere() -> None:
    html = page(asked("asha"))
    assert html.count("<tr>") == 1 + 5
    assert not re.findall(r"<script|<link|<img|@import|url\(|src=|href=", html)
    assert (
        "overflow-x:auto" in html and "min-width:46rem" in html
    )  # a narrow window scrolls, it doesn't shrink
