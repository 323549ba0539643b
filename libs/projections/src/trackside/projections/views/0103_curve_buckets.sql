-- Curves for charts, thinned here: the steps of each attempt or session are cut into 200 buckets, each with its first,
-- least, greatest and last value, so no peak is lost. Values that aren't finite are NULL and counted; of a bucket
-- whose first or last value is one, that value is NULL too.
SELECT
    metric_series.stream_id, metric_series.task_id, metric_series.attempt, metric_series.tag, buckets.bucket,
    buckets.first_step, buckets.last_step, nullif(buckets.first_point[2], 'NaN') AS first_value,
    nullif(buckets.last_point[2], 'NaN') AS last_value, buckets.min_value, buckets.max_value, buckets.points,
    buckets.non_finite, time_of(buckets.first_ms) AS first_at,
    time_of(buckets.last_ms) AS last_at
FROM metric_series
JOIN metric_totals ON metric_totals.series = metric_series.series
CROSS JOIN LATERAL (
    SELECT
        width_bucket(
            metric_points.step::numeric, metric_totals.first_step::numeric, metric_totals.last_step::numeric + 1, 200
        ) AS bucket,
        min(metric_points.step) AS first_step, max(metric_points.step) AS last_step,
        min(ARRAY[metric_points.step, coalesce(metric_points.value, 'NaN')]) AS first_point,
        max(ARRAY[metric_points.step, coalesce(metric_points.value, 'NaN')]) AS last_point,
        min(metric_points.value) AS min_value, max(metric_points.value) AS max_value, count(*) AS points,
        count(*) FILTER (WHERE metric_points.value IS NULL) AS non_finite,
        min(metric_points.wall_time_ms) AS first_ms, max(metric_points.wall_time_ms) AS last_ms
    FROM metric_points
    WHERE metric_points.series = metric_series.series
    GROUP BY bucket
) AS buckets
WHERE metric_series.kind = 'scalar'
