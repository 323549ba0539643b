"""SQL for how much devices were held over time, from any number of placements of any length."""

from boards.queries import FROM_MS, TO_MS


def held_devices(placements: str, width_ms: str, devices: str = "") -> str:
    """Returns a statement with the mean number of held devices in each interval: of all, or of each device.

    `placements` is a condition on the placements. `devices` is one on `worker_id` and `device_id`: with it
    each device is a series. The time that was held up to a moment t is the sum of t - began over what has
    begun, less that of t - ended over what has ended; so counts and sums of each interval are enough, and the
    difference between two moments is exact also for tasks of milliseconds. Most are short, so those that
    begin and end in the same intervals are summed first.
    """
    length = f"(least({TO_MS}, extract(epoch FROM now())::bigint * 1000) - {FROM_MS})"
    first = f"greatest(assigned_ms - {FROM_MS}, 0)"
    last = f"least(coalesce(ended_ms - {FROM_MS}, {length}), {length})"
    if devices:
        columns, held, metric = "worker_id, device_ids,", "1", "worker_id || ' ' || device_id"
        each = f"CROSS JOIN unnest(device_ids) AS device_id WHERE {devices}"
    else:
        columns, held, metric, each = "", "cardinality(device_ids)", "'devices'::text", ""
    return f"""WITH counted AS (
            SELECT {columns} {first} / {width_ms} AS first_bucket, {last} / {width_ms} AS last_bucket,
            sum({held}) AS held, sum(({held} * {first})::float8) AS first_sum,
            sum(({held} * {last})::float8) AS last_sum FROM placements
            WHERE assigned_ms - {FROM_MS} <= {length} AND (ended_ms IS NULL OR ended_ms >= {FROM_MS})
            AND {placements} GROUP BY {columns} first_bucket, last_bucket
        ), changes AS (
            SELECT {metric} AS metric, edge.* FROM counted
            CROSS JOIN LATERAL (VALUES (first_bucket, held, first_sum), (last_bucket, -held, -last_sum))
            AS edge (bucket, change, change_sum) {each}
        ), filled AS (
            SELECT metric, bucket, least({length}, (bucket + 1) * {width_ms}) AS until,
            least({width_ms}, {length} - bucket * {width_ms}) AS took,
            sum(sum(change)) OVER so_far AS held, sum(sum(change_sum)) OVER so_far AS held_sum FROM (
                SELECT * FROM changes UNION ALL SELECT metric, bucket, 0, 0
                FROM (SELECT DISTINCT metric FROM changes) AS metrics
                CROSS JOIN generate_series(0, {length} / {width_ms}) AS bucket
            ) AS edges GROUP BY metric, bucket WINDOW so_far AS (PARTITION BY metric ORDER BY bucket)
        ), summed AS (
            SELECT metric, bucket, took, until * held - held_sum AS held_ms FROM filled WHERE took > 0
        )
        SELECT {FROM_MS} + bucket * {width_ms} AS time, metric, greatest(0,
            held_ms - coalesce(lag(held_ms) OVER (PARTITION BY metric ORDER BY bucket), 0)
        )::float8 / took AS value FROM summed ORDER BY 1, 2"""
