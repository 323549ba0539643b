"""What ran on each device, as columns for a timeline of the fleet."""

from typing import Any

import numpy as np

from trackside.contracts.tasks import AttemptEnd
from trackside.projections.columns import NO_LABEL, ChartColumns
from trackside.projections.read_pool import SnapshotModels

ENDS = tuple(end.value for end in AttemptEnd)
_PLACEMENTS = """
    FROM device_use
    WHERE began_ms < $2 AND (ended_ms IS NULL OR ended_ms > $1)
"""


async def timeline_columns(
    models: SnapshotModels, from_ms: int, to_ms: int, limit: int = 20_000
) -> ChartColumns:
    """Returns the placements of tasks on devices within a time, ms since 1970, by device and begin.

    Columns: `began_ms`, `ended_ms` (NaN: it still runs), `attempt`, `placement`, and with labels `device`
    (`WORKER/DEVICE`), `stream`, `task` and `ending` (no label: it still runs). Of more than `limit` the
    longest are returned, since a chart has no room for the others; `total` counts all.
    """
    counted = await models.fetch(f"SELECT count(*) AS total {_PLACEMENTS}", from_ms, to_ms)
    total = int(counted[0]["total"])
    longest = "ORDER BY coalesce(ended_ms, $2) - began_ms DESC" if total > limit else ""
    record = await models.connection.fetchrow(
        f"""
        SELECT
            array_agg(worker_id || '/' || device_id) AS device, array_agg(stream_id) AS stream,
            array_agg(task_id) AS task, array_agg(coalesce(ending, '')) AS ending,
            array_agg(began_ms) AS began_ms, array_agg(coalesce(ended_ms, -1)) AS ended_ms,
            array_agg(attempt) AS attempt, array_agg(placement) AS placement
        FROM (
            SELECT * FROM (SELECT * {_PLACEMENTS} {longest} LIMIT $3) AS shown
            ORDER BY worker_id, device_id, began_ms
        ) AS ordered
        """,  # noqa: S608
        from_ms,
        to_ms,
        limit,
    )
    assert record is not None, "an aggregate without GROUP BY has one row"
    found: dict[str, list[Any]] = {name: values or [] for name, values in record.items()}
    ended = np.array(found["ended_ms"], dtype=np.float64)
    arrays = {
        "began_ms": np.array(found["began_ms"], dtype=np.float64),
        "ended_ms": np.where(ended < 0, np.nan, ended),
        "attempt": np.array(found["attempt"], dtype=np.int32),
        "placement": np.array(found["placement"], dtype=np.int32),
        "ending": np.array([_ENDS.get(end, NO_LABEL) for end in found["ending"]], dtype=np.int32),
    }
    labels = {"ending": ENDS}
    for name in ("device", "stream", "task"):
        codes = {label: at for at, label in enumerate(dict.fromkeys(found[name]))}
        arrays[name] = np.array([codes[label] for label in found[name]], dtype=np.int32)
        labels[name] = tuple(codes)
    return ChartColumns(arrays, labels, total)


_ENDS = {end: at for at, end in enumerate(ENDS)}
