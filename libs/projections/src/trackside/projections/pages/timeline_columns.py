"""What ran on each device, as columns for a timeline of the fleet."""

from typing import Any

import numpy as np

from trackside.contracts.tasks.tasks import AttemptEnd
from trackside.projections.reading.columns import NO_LABEL, ChartColumns
from trackside.projections.reading.read_pool import SnapshotModels

ENDS = tuple(end.value for end in AttemptEnd)
_WITHIN = "assigned_ms < $2 AND (ended_ms IS NULL OR ended_ms > $1)"
_TOOK, _SPREAD = "coalesce(ended_ms, $2) - assigned_ms", "hashint8(assigned_ms)"
"""Of placements of the same length, those with the largest hashes are shown: they are spread over time."""


async def timeline_columns(
    models: SnapshotModels, from_ms: int, to_ms: int, limit: int = 10_000
) -> ChartColumns:
    """Returns the placements of tasks on devices within a time, ms since 1970, by device and begin.

    Columns: `began_ms`, `ended_ms` (NaN: it still runs), `attempt`, `placement`, and with labels `device`
    (`WORKER/DEVICE`), `stream`, `task` and `ending` (no label: it still runs). Of more than `limit` the
    longest are returned, since a chart has no room for the others; `total` counts all.
    """
    (counted,) = await models.fetch(
        "SELECT coalesce(sum(cardinality(device_ids)), 0)::bigint AS total "  # noqa: S608 - our names
        f"FROM placements WHERE {_WITHIN}",
        from_ms,
        to_ms,
    )
    total, values, longest = int(counted["total"]), [from_ms, to_ms], ""
    if total > limit:
        # First the length that they have at least: sorting two numbers of each is faster than sorting rows.
        shortest = await models.fetch(
            f"SELECT {_TOOK} AS took, {_SPREAD} AS spread FROM placements "  # noqa: S608 - our names
            f"WHERE {_WITHIN} ORDER BY 1 DESC, 2 DESC LIMIT 1 OFFSET {limit - 1:d}",
            *values,
        )
        if shortest:  # fewer placements than that may be on more devices
            values += [shortest[0]["took"], shortest[0]["spread"]]
            longest = f"AND ({_TOOK}, {_SPREAD}) >= ($3::bigint, $4::integer)"
    record = await models.connection.fetchrow(
        f"""
        SELECT
            array_agg(worker_id || '/' || device_id) AS device, array_agg(stream_id) AS stream,
            array_agg(task_id) AS task, array_agg(coalesce(ending, '')) AS ending,
            array_agg(assigned_ms) AS began_ms, array_agg(coalesce(ended_ms, -1)) AS ended_ms,
            array_agg(attempt) AS attempt, array_agg(placement) AS placement
        FROM (
            SELECT
                worker_id, device_id, stream_id, task_id, ending, assigned_ms, ended_ms, attempt, placement
            FROM placements, unnest(device_ids) AS device_id
            WHERE {_WITHIN} {longest}
            ORDER BY worker_id, device_id, assigned_ms
            LIMIT {limit:d}
        ) AS ordered
        """,  # noqa: S608
        *values,
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
