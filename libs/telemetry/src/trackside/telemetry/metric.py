"""What a metric is: its name, kind, labels, buckets, and one line of help."""

from dataclasses import dataclass
from typing import Final, Literal

from trackside.telemetry.labels import MetricLabel

MetricKind = Literal["counter", "gauge", "histogram"]

CALLS: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Buckets of what is over within seconds: appends, transactions, suggestions."""
HOPS: Final = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)
"""Buckets of what a service promises a time for: 0.5 s, 1 s and 5 s are bounds."""
MINUTES: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0)
"""Buckets of starts and uploads."""
DAYS: Final = (
    0.005,
    0.02,
    0.1,
    0.5,
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    900.0,
    3_600.0,
    14_400.0,
    86_400.0,
    604_800.0,
)
"""Buckets of tasks and trials: of milliseconds, or of a week."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: `buckets` are the upper bounds of a histogram, in the unit that the name ends with.

    `of` are its labels with their values.
    """

    name: str
    kind: MetricKind
    help: str
    of: tuple[MetricLabel, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """Returns the name as Prometheus has it, without the `_total` that it adds to a counter."""
        return self.name.replace(".", "_")

    @property
    def owner(self) -> str:
        """Returns the package that counts it, such as `scheduler`."""
        return self.name.split(".")[1]

    @property
    def labels(self) -> tuple[str, ...]:
        """Returns the names of its labels."""
        return tuple(label.name for label in self.of)
