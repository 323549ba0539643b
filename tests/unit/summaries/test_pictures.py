import io
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

from trackside.summaries.pictures import MissingMatplotlibError, PictureOptions, picture
from trackside.summaries.plotting import ChartCurve

SVG = "{http://www.w3.org/2000/svg}"
BLUE = np.array([0, 107, 164])
"""The first colour of the style."""


def curve(values: list[float] | NDArray[np.float64], name: str = "loss", first: int = 0) -> ChartCurve:
    return ChartCurve(name, first + np.arange(len(values)), np.array(values, dtype=np.float64))


def test_a_png_has_the_curve_in_its_colour_and_a_gap_where_it_is_not_finite() -> None:
    from matplotlib.image import imread

    values = np.linspace(0.0, 1.0, 300)
    values[100:200] = np.nan
    png = picture([curve(values)], PictureOptions(width=480, height=270))
    pixels = imread(io.BytesIO(png), format="png")
    found = np.round(pixels[:, :, :3] * 255).astype(np.int64)
    assert found.shape == (540, 960, 3)
    blue = (np.abs(found - BLUE).max(axis=2) < 40)[150:400]  # without the legend and the marks at the axis
    columns = np.flatnonzero(blue.any(axis=0))
    assert 0.25 < np.diff(columns).max() / 960 < 0.4
    heights = [np.flatnonzero(blue[:, column]).mean() for column in columns]
    assert heights[0] > heights[-1], "it rises"


def test_an_svg_names_the_curves_and_has_no_script() -> None:
    bad = "<script>alert(1)</script>\x00\x1b$x$ 日本"
    options = PictureOptions("svg", title=bad)
    found = picture([curve([1, 2, 3], bad), curve([3, np.inf, 1], "b")], options)
    root = ElementTree.fromstring(found)
    assert root.tag == f"{SVG}svg" and b"<script" not in found
    assert {element.tag for element in root.iter() if "script" in str(element.tag)} == set()
    assert found == picture([curve([1, 2, 3], bad), curve([3, np.inf, 1], "b")], options), "the same bytes"


@pytest.mark.parametrize("log_y", [False, True])
@pytest.mark.parametrize(
    "values",
    [[], [np.nan, np.inf], [0.25], [2, 2], [1.7e308, -1.7e308, 5e-324], [1e-300, np.nan, 1e300], [0, -1]],
)
def test_any_curve_is_a_picture(values: list[float], log_y: bool) -> None:
    options = PictureOptions("svg", log_y=log_y, width=200, height=100)
    assert ElementTree.fromstring(picture([curve(values, first=2**62)], options)).tag == f"{SVG}svg"


@pytest.mark.thorough
def test_times_and_many_curves_are_a_picture() -> None:
    times = ChartCurve("a", np.array([0.0, 600.0]), np.array([1.0, 2.0]))
    assert len(picture([times], PictureOptions(axis="relative"))) > 1_000
    assert len(picture([curve([1, 2], first=1_700_000_000_000)], PictureOptions(axis="wall"))) > 1_000
    assert len(picture([curve([at, at + 1.0], f"run {at}") for at in range(45)])) > 1_000


def test_without_matplotlib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingMatplotlibError, match=r"pip install 'trackside\[plot\]'"):
        picture([curve([1, 2])])
