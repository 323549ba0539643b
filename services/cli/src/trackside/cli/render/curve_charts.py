"""Charts of curves within the output: in colours on a terminal, else told apart by letters."""

from collections.abc import Sequence

from rich.text import Text

from trackside.cli.render import screen
from trackside.summaries.charts import ChartOptions, chart, sparkline
from trackside.summaries.curves import CurveAxis
from trackside.summaries.plotting import ChartCurve

HEIGHT = 22
"""Lines of a chart: with the line of the command they fit a terminal of 24."""
SMALL = 9
SPARK_WIDTH = 30


def show_chart(
    curves: Sequence[ChartCurve], axis: CurveAxis = "step", *, log_y: bool = False, height: int = HEIGHT
) -> None:
    """Prints curves over one axis."""
    output = screen.console()
    color = output.is_terminal and not output.no_color
    for line in chart(curves, ChartOptions(output.width, height, axis, log_y, color)):
        output.print(Text.from_ansi(line), soft_wrap=True)


def spark(curve: ChartCurve) -> str:
    """Returns a curve as a short line of blocks."""
    return sparkline(curve.values, SPARK_WIDTH)
