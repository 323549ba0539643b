"""SQL for how much devices were held over time, from any number of placements of any length."""


def held_devices(source: str, width_s: str, key: str, scale: str = "1") -> str:
    """Returns a statement with the mean number of held devices in each interval, by `key`.

    `source` is a query with the columns of `key`, and `began_ms` and `ended_ms`. The time that was held up
    to a
    moment t is
    the sum of t - began over what has begun, less that of t - ended over what has ended; so counts and sums
    of each
    interval are enough, and the difference between two moments is exact also for tasks of milliseconds.
    """
    return f"""WITH span AS (
            SELECT extract(epoch FROM $__timeFrom()::timestamptz)::float8 AS began,
            extract(epoch FROM least($__timeTo()::timestamptz, now()) - $__timeFrom()::timestamptz)::float8
            AS length,
            ({width_s})::float8 AS width
        ), changes AS (
            SELECT {key} AS metric, floor(at / width)::int AS bucket, sum(change) AS changed, sum(change *
            at) AS sums
            FROM span CROSS JOIN ({source}) AS held
            CROSS JOIN LATERAL (VALUES
                (1, greatest(0, began_ms / 1000.0::float8 - span.began)),
                (-1, least(length, coalesce(ended_ms / 1000.0::float8, span.began + length) - span.began))
            ) AS edge (change, at)
            WHERE began_ms <= (span.began + length) * 1000 AND (ended_ms IS NULL OR ended_ms >= span.began *
            1000)
            GROUP BY 1, 2
        ), filled AS (
            SELECT metric, bucket, least(length, (bucket + 1) * width) AS until, least(width, length -
            bucket * width) AS took,
            sum(changed) OVER so_far AS held, sum(sums) OVER so_far AS held_sums
            FROM span CROSS JOIN LATERAL generate_series(0, floor(length / width)::int) AS bucket
            CROSS JOIN (SELECT DISTINCT metric FROM changes) AS metrics LEFT JOIN changes USING (metric,
            bucket)
            WINDOW so_far AS (PARTITION BY metric ORDER BY bucket)
        ), summed AS (
            SELECT metric, bucket, took, coalesce(until * held - held_sums, 0) AS held_s FROM filled WHERE
            took > 0
        )
        SELECT span.began + bucket * span.width AS time, metric,
        greatest(0, held_s - coalesce(lag(held_s) OVER (PARTITION BY metric ORDER BY bucket), 0)) / took *
        {scale} AS value
        FROM span CROSS JOIN summed ORDER BY 1, 2"""
