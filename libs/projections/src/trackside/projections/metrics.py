"""Rows of metric points, the same for the summary indexer and a rebuild."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import repeat

from trackside.contracts.summaries import MetricPointsReported
from trackside.domain.cells import bigints, without_nul
from trackside.domain.table import RowValues, Table

SERIES = Table(
    "metric_series", ("series", "stream_id", "task_id", "attempt", "tag"), key_width=1, insert_only=True
)
POINTS = Table("metric_points", ("series", "step", "wall_time_ms", "value"), key_width=2, insert_only=True)
ATTEMPT_LIMIT = 2**31 - 1


@lru_cache(maxsize=65_536)
def series_id(task_id: str, attempt: int, tag: str) -> int:
    """Returns the number of a series: a signed 64-bit BLAKE2b of task, attempt and tag."""
    digest = blake2b(f"{task_id}\0{attempt}\0{tag}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def metric_rows(message: MetricPointsReported) -> tuple[list[RowValues], list[RowValues]]:
    """Returns the rows of a batch for `SERIES` and `POINTS`; only the first row of a key counts."""
    series_rows: list[RowValues] = []
    point_rows: list[RowValues] = []
    for series in message.series:
        number = series_id(message.task_id, message.attempt, series.tag)
        attempt = max(-ATTEMPT_LIMIT, min(message.attempt, ATTEMPT_LIMIT))
        series_rows.append(
            (
                number,
                without_nul(message.stream),
                without_nul(message.task_id),
                attempt,
                without_nul(series.tag),
            )
        )
        point_rows += zip(
            repeat(number), bigints(series.steps), bigints(series.times_ms), series.values, strict=False
        )
    return series_rows, point_rows


def rows_of(messages: Iterable[MetricPointsReported]) -> tuple[Sequence[RowValues], Sequence[RowValues]]:
    """Returns the rows of many batches, each series once."""
    series: dict[int, RowValues] = {}
    points: list[RowValues] = []
    for message in messages:
        series_rows, point_rows = metric_rows(message)
        for row in series_rows:
            series.setdefault(row[0], row)
        points += point_rows
    return list(series.values()), points
