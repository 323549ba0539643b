"""What ran on each device, as columns for a timeline of the fleet."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.contracts.tasks import AttemptEnd
from trackside.projections.columns import NO_LABEL, ChartColumns, ColumnKind, read_arrays
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


async def busy_columns(models: SnapshotModels, from_ms: int, to_ms: int, buckets: int = 500) -> ChartColumns:
    """Returns how busy each device was in each of `buckets` equally long parts of a time, ms since 1970.

    For times with more placements than a timeline can show. Columns: `device` (labels, `WORKER/DEVICE`),
    `began_ms` of the part, and `tasks`: how many tasks the device had, on average over the part. Parts in
    which a device had none are left out; `total` counts the placements.
    """
    devices = await models.fetch("SELECT worker_id, device_id FROM devices ORDER BY worker_id, device_id")
    names = tuple(f"{row['worker_id']}/{row['device_id']}" for row in devices)
    numbered = "SELECT *, row_number() OVER (ORDER BY worker_id, device_id) - 1 AS code FROM devices"
    selected: dict[str, tuple[str, ColumnKind]] = {
        "device": ("numbered.code", "i4"),
        "began_ms": (f"greatest(began_ms, {from_ms:d})", "f8"),
        "ended_ms": (f"least(coalesce(ended_ms, {to_ms:d}), {to_ms:d})", "f8"),
    }
    source = (
        f"device_use JOIN ({numbered}) AS numbered USING (worker_id, device_id) "
        f"WHERE began_ms < {to_ms:d} AND (ended_ms IS NULL OR ended_ms > {from_ms:d})"
    )
    found = await read_arrays(models.connection, selected, source)
    edges = np.linspace(from_ms, to_ms, buckets + 1)
    parts = [
        np.diff(_busy_until(edges, found["began_ms"][own], found["ended_ms"][own])) / np.diff(edges)
        for own in (found["device"] == code for code in range(len(names)))
    ]
    busy = np.array(parts).reshape(len(names), buckets)
    device, part = np.nonzero(busy > 0)
    arrays: dict[str, NDArray[Any]] = {
        "device": device.astype(np.int32),
        "began_ms": edges[:-1][part],
        "tasks": busy[device, part],
    }
    return ChartColumns(arrays, {"device": names}, len(found["device"]))


def _busy_until(
    times: NDArray[np.float64], began: NDArray[np.float64], ended: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns for each time the sum of the time that tasks had run until then, ms."""
    return _since(times, began) - _since(times, ended)


def _since(times: NDArray[np.float64], moments: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns for each time the sum of the time since each earlier moment, ms."""
    origin = times[0]  # sums of times since 1970 would lose milliseconds
    ordered = np.sort(moments) - origin
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    count = np.searchsorted(ordered, times - origin)
    since: NDArray[np.float64] = count * (times - origin) - sums[count]
    return since


_ENDS = {end: at for at, end in enumerate(ENDS)}
