"""A picture of the rounds of a job: a metric of the trained and of the live model, and each deployment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trackside.aggregates.rounds.display.round_display import metric_values, result_of
from trackside.domain.rows.table import ViewRow
from trackside.summaries.axes import number_labels, ticks
from trackside.summaries.pictures import PictureForm
from trackside.whatif.charts.canvas import Box, Label, Polyline, Shape, png, svg

WIDTH, HEIGHT = 960.0, 440.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 930.0, 84.0, 370.0
TRAINED, LIVE, DEPLOYED, ROLLED_BACK = "#0072b2", "#222222", "#009e73", "#d55e00"
"""Colours of the palette of Okabe and Ito, for colour-blind readers."""
GREY, MUTED, GRID = "#9a9a9a", "#666666", "#e4e4e4"
DOT, LABEL_WIDTH = 7.0, 34.0
MOST_TICKS = 20


@dataclass(frozen=True, slots=True)
class DrawnRound:
    """A round: a metric of what it has trained and of what was live, and whether it failed."""

    number: int
    trained: float | None
    live: float | None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class DrawnDeployment:
    """A version that became live: in a round, or between two, by a rollback."""

    at: float
    version: int
    rollback: bool


@dataclass(frozen=True, slots=True)
class DrawnRounds:
    """What a picture has."""

    metric: str
    rounds: Sequence[DrawnRound]
    deployments: Sequence[DrawnDeployment]


def drawn_rounds(rounds: Sequence[ViewRow], deployments: Sequence[ViewRow], metric: str) -> DrawnRounds:
    """Returns what is drawn, from the rows of rounds and deployments."""
    drawn = [
        DrawnRound(row["round"], *metric_values(row, metric), result_of(row) == "failed") for row in rounds
    ]
    done = [row for row in deployments if row["deployed_at"] is not None]
    return DrawnRounds(metric, drawn, [_deployment(row, rounds) for row in done])


def _deployment(row: ViewRow, rounds: Sequence[ViewRow]) -> DrawnDeployment:
    if row["cause"] == "round":
        return DrawnDeployment(float(row["round"]), row["version"], rollback=False)
    before = [each["round"] for each in rounds if each["began_at"] and each["began_at"] < row["deployed_at"]]
    return DrawnDeployment(max(before, default=0) + 0.5, row["version"], rollback=True)


def rounds_picture(drawn: DrawnRounds, title: str, form: PictureForm) -> bytes:
    """Returns the picture as SVG or PNG; for a PNG, raises MissingMatplotlibError if that is missing."""
    shapes = list(_shapes(drawn, title))
    if form == "png":
        return png(WIDTH, HEIGHT, shapes)
    size = f'xmlns="http://www.w3.org/2000/svg" width="{WIDTH:g}" height="{HEIGHT:g}" '
    return svg(WIDTH, HEIGHT, shapes, title).replace("<svg ", f"<svg {size}", 1).encode()


class _Scale:
    """Where rounds and values are on the page."""

    def __init__(self, drawn: DrawnRounds) -> None:
        values = [value for each in drawn.rounds for value in (each.trained, each.live) if value is not None]
        low, high = min(values, default=0.0), max(values, default=1.0)
        pad = (high - low) * 0.1 or abs(high) * 0.05 or 1.0
        self.low, self.high = low - pad, high + pad
        numbers = [float(each.number) for each in drawn.rounds] + [each.at for each in drawn.deployments]
        self.first, self.last = min(numbers, default=1.0) - 0.5, max(numbers, default=1.0) + 0.5

    def x(self, number: float) -> float:
        """Returns the place of a round."""
        return LEFT + (RIGHT - LEFT) * (number - self.first) / (self.last - self.first)

    def y(self, value: float) -> float:
        """Returns the place of a value."""
        return BOTTOM - (BOTTOM - TOP) * (value - self.low) / (self.high - self.low)

    def points(self, values: Sequence[tuple[int, float | None]]) -> list[tuple[float, float]]:
        """Returns the places of the values of rounds, without those that have none."""
        return [(self.x(number), self.y(value)) for number, value in values if value is not None]


def _shapes(drawn: DrawnRounds, title: str) -> Iterator[Shape]:
    scale = _Scale(drawn)
    yield Label(20, 28, title, 16, bold=True)
    yield from _legend(drawn)
    yield from _axes(drawn, scale)
    yield from _deployments(drawn, scale)
    trained = [
        (scale.x(each.number), scale.y(each.trained)) for each in drawn.rounds if each.trained is not None
    ]
    live = [(scale.x(each.number), scale.y(each.live)) for each in drawn.rounds if each.live is not None]
    yield from _line(live, LIVE, (6, 4))
    yield from _line(trained, TRAINED)
    for each in drawn.rounds:
        if each.failed:
            yield Label(scale.x(each.number), BOTTOM - 6, "failed", 10, "middle", MUTED)
    if not trained and not live:
        yield Label((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2, "no round has a metric", 12, "middle", MUTED)


def _legend(drawn: DrawnRounds) -> Iterator[Shape]:
    yield Polyline(((LEFT, 48), (LEFT + 26, 48)), TRAINED, 2)
    yield Label(LEFT + 32, 52, "trained model", 11)
    yield Polyline(((LEFT + 140, 48), (LEFT + 166, 48)), LIVE, 2, (6, 4))
    yield Label(LEFT + 172, 52, "live model", 11)
    yield Polyline(((LEFT + 260, 42), (LEFT + 260, 54)), DEPLOYED, 2)
    yield Label(LEFT + 267, 52, "deployed", 11)
    if any(each.rollback for each in drawn.deployments):
        yield Polyline(((LEFT + 340, 42), (LEFT + 340, 54)), ROLLED_BACK, 2, (3, 3))
        yield Label(LEFT + 347, 52, "rolled back", 11)


def _axes(drawn: DrawnRounds, scale: _Scale) -> Iterator[Shape]:
    values = ticks(scale.low, scale.high)
    for value, text in zip(values, number_labels(values), strict=True):
        yield Polyline(((LEFT, scale.y(value)), (RIGHT, scale.y(value))), GRID, 1)
        yield Label(LEFT - 8, scale.y(value) + 4, text, 10, "end", MUTED)
    yield Polyline(((LEFT, BOTTOM), (RIGHT, BOTTOM)), GREY, 1)
    every = -(-len(drawn.rounds) // MOST_TICKS) or 1
    for each in drawn.rounds[::every]:
        yield Polyline(((scale.x(each.number), BOTTOM), (scale.x(each.number), BOTTOM + 4)), GREY, 1)
        yield Label(scale.x(each.number), BOTTOM + 18, str(each.number), 10, "middle", MUTED)
    yield Label((LEFT + RIGHT) / 2, BOTTOM + 40, "round", 11, "middle", MUTED)


def _deployments(drawn: DrawnRounds, scale: _Scale) -> Iterator[Shape]:
    """Draws each deployment as a line with its version; a label that has no place is left out."""
    labelled = LEFT - LABEL_WIDTH
    for each in sorted(drawn.deployments, key=lambda each: each.at):
        x, color = scale.x(each.at), ROLLED_BACK if each.rollback else DEPLOYED
        yield Polyline(((x, TOP), (x, BOTTOM)), color, 1.5, (3, 3) if each.rollback else ())
        if x - labelled >= LABEL_WIDTH:
            yield Label(x, TOP - 6, f"@{each.version}", 11, "middle", color, bold=True)
            labelled = x


def _line(points: Sequence[tuple[float, float]], color: str, dash: tuple[float, ...] = ()) -> Iterator[Shape]:
    if len(points) > 1:
        yield Polyline(tuple(points), color, 2, dash)
    for x, y in points:
        yield Box(x - DOT / 2, y - DOT / 2, DOT, DOT, color)
