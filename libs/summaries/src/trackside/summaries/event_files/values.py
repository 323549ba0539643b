"""What event files hold, in one form for TensorBoard and MindSpore."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal[
    "scalar", "histogram", "image", "text", "tensor", "graph", "optimized_graph", "loss_landscape", "hparams"
]

Status = Literal["succeeded", "failed", "running"]
"""How a run of the hparams plug-in stands."""


@dataclass(slots=True)
class Columns:
    """Points of one tag in the order of the file: equally long lists. Times are milliseconds since 1970.

    `restarts` is how often the tag had begun again in the file up to the first of these points; at each
    index in `falls` it begins again.
    """

    steps: list[int] = field(default_factory=list)
    times_ms: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    restarts: int = 0
    falls: list[int] = field(default_factory=list)

    def sessions(self) -> Iterator[tuple[int, "Columns"]]:
        """Yields the restarts so far and the points of each session; the last possible one has the rest."""
        if not self.falls:
            yield self.restarts, self
            return
        ends = [*self.falls, len(self.steps)]
        for count, (start, end) in enumerate(zip([0, *self.falls], ends, strict=True), self.restarts):
            part = slice(start, end)
            yield count, Columns(self.steps[part], self.times_ms[part], self.values[part], count)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts in buckets: bucket i holds the values from `left[i]` to `right[i]`.

    The last bucket holds its right edge too. `minimum`, `maximum` and `total` (the sum) are of the finite
    values and None where the file doesn't say them; values that are not finite are counted apart.
    `sum_squares` is written, and not read: TensorBoard shows it nowhere.
    """

    left: list[float]
    right: list[float]
    counts: list[float]
    minimum: float | None = None
    maximum: float | None = None
    total: float | None = None
    nan: int = 0
    positive_inf: int = 0
    negative_inf: int = 0
    sum_squares: float | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An encoded picture as the file has it (PNG, JPEG, ...); sizes in pixels, 0 where it has none."""

    data: bytes
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class TextRows:
    """Texts of one step, row by row; `shape` is () for a single one."""

    texts: list[str]
    shape: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph of computation: its nodes in the order of the file."""

    nodes: list["GraphNode"]


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node. `name` is its path, parts separated by "/"; inputs are names of nodes."""

    name: str
    op: str
    inputs: list[str]
    control_inputs: list[str]
    device: str = ""


@dataclass(frozen=True, slots=True)
class LossLandscape:
    """Loss over two directions around the weights of a training (MindSpore's).

    `x`, `y` are the coordinates and `z` the losses of the surface; `path` is (intervals, x, y, z) of the
    training in the same directions; `converged` is (x, y, z) of its end. What the file leaves out is None.
    """

    x: NDArray[np.float64] | None
    y: NDArray[np.float64] | None
    z: NDArray[np.float64] | None
    path: tuple[list[int], list[float], list[float], list[float]] | None
    converged: tuple[float, float, float] | None
    decomposition: str
    unit: str
    steps_per_epoch: int | None


@dataclass(frozen=True, slots=True)
class HParams:
    """Hyper-parameters of a run as the hparams plug-in of TensorBoard has them.

    `values` are those of the run, `metrics` the tags that a run is compared by, `status` is "succeeded",
    "failed", "running" or None where the file has not said it yet.
    """

    values: dict[str, str | float | bool | None] = field(default_factory=dict)
    metrics: list[str] = field(default_factory=list)
    group: str = ""
    status: Status | None = None


SummaryValue = Histogram | Image | TextRows | Graph | LossLandscape | HParams | NDArray[np.generic]
"""What one item holds; a tensor is an array of numpy."""


@dataclass(frozen=True, slots=True)
class SummaryItem:
    """A value that is no number; `index` counts those of one tag and step from 0.

    `restarts` is how often the tag had begun again in the file, as in `Columns`.
    """

    kind: Kind
    tag: str
    step: int
    time_ms: int
    value: SummaryValue
    index: int = 0
    restarts: int = 0


@dataclass(slots=True)
class Segment:
    """Values of a file between two starts of a session: scalars by tag, the others in their order."""

    starts_session: bool = False
    scalars: dict[str, Columns] = field(default_factory=dict)
    items: list[SummaryItem] = field(default_factory=list)

    def add_point(self, tag: str, step: int, time_ms: int, value: float) -> None:
        """Adds a scalar."""
        self.add_points(tag, (step,), (time_ms,), (value,))

    def add_points(
        self, tag: str, steps: Sequence[int], times_ms: Sequence[int], values: Sequence[float]
    ) -> None:
        """Adds scalars of one tag; the columns are equally long."""
        columns = self.scalars.get(tag)
        if columns is None:
            columns = self.scalars[tag] = Columns()
        columns.steps += steps
        columns.times_ms += times_ms
        columns.values += values


@dataclass(slots=True)
class Decoded:
    """What records hold; `unknown` counts the values of no known kind by what they call themselves."""

    segments: list[Segment] = field(default_factory=lambda: [Segment()])
    unknown: dict[str, int] = field(default_factory=dict)

    def start_session(self) -> None:
        """Begins the next segment; a session that starts before anything was seen has the first one."""
        if self.segments[-1].scalars or self.segments[-1].items:
            self.segments.append(Segment())
        self.segments[-1].starts_session = True

    def skip(self, name: str) -> None:
        """Counts a value of no known kind."""
        self.unknown[name] = self.unknown.get(name, 0) + 1
