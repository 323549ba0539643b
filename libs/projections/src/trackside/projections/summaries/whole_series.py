"""Reads series of any length part by part, so that they need no more memory than one part."""

import json
from collections.abc import AsyncIterator, Sequence

from trackside.projections.database.postgres import Connection, sql
from trackside.projections.summaries.items import StoredValue
from trackside.projections.summaries.points import INT64_MAX, INT64_MIN, PointColumns, PointRange, read_points
from trackside.projections.summaries.series import SeriesExtent

CHUNK_POINTS = 200_000
CHUNK_VALUES = 200
"""Values other than numbers have bodies of up to 32 KiB."""


async def point_chunks(
    connection: Connection, series: Sequence[SeriesExtent], *, superseded: bool, size: int = CHUNK_POINTS
) -> AsyncIterator[PointColumns]:
    """Yields the points of the series of one curve by step, about `size` at once.

    Points that don't count any more are left out unless `superseded`.
    """
    numbers, first = [each.series for each in series], INT64_MIN
    while True:
        after = await connection.fetchval(sql("queries", "summary_step_at"), numbers, first, size)
        # Several attempts may have the same step: a part has at least one step.
        end = INT64_MAX if after is None else max(after - 1, first)
        within = PointRange(first_step=first, last_step=end)
        [found] = await read_points(connection, [series], within, superseded=superseded)
        if len(found.steps):
            yield found
        if after is None or end == INT64_MAX:
            return
        first = end + 1


async def all_values(
    connection: Connection, series: SeriesExtent, kind: str, *, superseded: bool, size: int = CHUNK_VALUES
) -> AsyncIterator[StoredValue]:
    """Yields the values of a series of a kind other than scalar, by step."""
    last = INT64_MAX
    if series.counted_below is not None and not superseded:
        last = series.counted_below - 1
    step, item = INT64_MIN, -1
    while True:
        rows = await connection.fetch(
            sql("queries", "summary_items_after"), series.series, step, item, last, size
        )
        for row in rows:
            columns = dict(row)
            columns["body"] = json.loads(columns["body"])
            yield StoredValue(series.job_id, series.attempt, series.tag, kind, **columns)
        if len(rows) < size:
            return
        step, item = rows[-1]["step"], rows[-1]["index"]
