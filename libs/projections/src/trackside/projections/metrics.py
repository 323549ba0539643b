"""Rows of metric points: pure, and the same for the summary indexer and a rebuild."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import repeat

from trackside.contracts.summaries import MetricPointsReported
from trackside.projections.cells import plain, wholes
from trackside.projections.projection import Row, Table

SERIES = Table(
    "metric_series", ("series", "stream_id", "task_id", "attempt", "tag"), key_width=1, insert_only=True
)
POINTS = Table("metric_points", ("series", "step", "wall_time_ms", "value"), key_width=2, insert_only=True)
ATTEMPT_LIMIT = 2**31 - 1


@lru_cache(maxsize=65_536)
def series_id(task_id: str, attempt: int, tag: str) -> int:
    """Gives the number of a series: a signed 64-bit BLAKE2b of task, attempt and tag."""
    digest = blake2b(f"{task_id}\0{attempt}\0{tag}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def metric_rows(message: MetricPointsReported) -> tuple[list[Row], list[Row]]:
    """Gives the rows of a batch for `SERIES` and `POINTS`; the first row of a key is the one that counts."""
    series_rows: list[Row] = []
    point_rows: list[Row] = []
    for series in message.series:
        number = series_id(message.task_id, message.attempt, series.tag)
        attempt = max(-ATTEMPT_LIMIT, min(message.attempt, ATTEMPT_LIMIT))
        series_rows.append(
            (number, plain(message.stream), plain(message.task_id), attempt, plain(series.tag))
        )
        point_rows += zip(
            repeat(number), wholes(series.steps), wholes(series.times_ms), series.values, strict=False
        )
    return series_rows, point_rows


def rows_of(messages: Iterable[MetricPointsReported]) -> tuple[Sequence[Row], Sequence[Row]]:
    """Gives the rows of many batches, each series once."""
    series: dict[int, Row] = {}
    points: list[Row] = []
    for message in messages:
        series_rows, point_rows = metric_rows(message)
        for row in series_rows:
            series.setdefault(row[0], row)
        points += point_rows
    return list(series.values()), points
