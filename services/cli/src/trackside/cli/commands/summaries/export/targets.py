"""What an export needs of the files that it writes."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from trackside.projections.summaries.items import StoredValue
from trackside.projections.summaries.jobs import SummaryJobRow
from trackside.projections.summaries.points import PointColumns


class ExportFiles(Protocol):
    """Files of one format, closed by the block that has opened them."""

    def begin_job(self, job: SummaryJobRow) -> None:
        """Begins the values of a job."""

    def begin_curve(self, *, single: bool) -> None:
        """Begins a curve; `single` says whether floats of 32 bits have all of its values."""

    def add_points(self, job_id: str, tag: str, attempt: int, points: PointColumns) -> None:
        """Adds points of the curve."""

    def add_value(self, value: StoredValue) -> bool:
        """Adds a value that is no number; returns False where the format has no form for it."""


def fit_single(values: NDArray[np.float64]) -> bool:
    """Returns whether floats of 32 bits have all values."""
    with np.errstate(over="ignore", under="ignore"):
        single = values.astype(np.float32).astype(np.float64)
    return bool(((single == values) | np.isnan(values)).all())
